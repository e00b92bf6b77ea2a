; Written by python -m benchmarks.probe_forms: instructions that probes put to a device.

    mac tiles=r1c1 avdata=@1
        a: 0x100                                            ; 1 step
        b: 0x8200 [1*4]                                     ; 1 word, 4 B
        c: 0x400 [1*1]                                      ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.011641709 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*1 1*1]                          ; 1 step
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [1*1]                                      ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.011641709 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*0 1*4 1*4 1*4]                          ; 1 step
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [1*0 1*4]                                  ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: narrow_to_wide>=0@1
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*1]                                      ; 1 step
        b: 0x8200 [1*1]                                     ; 1 word, 4 B
        c: 0x400 [1*1]                                      ; 1 step
        d: 0x1800 [1*1] ping(1, 4)                          ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu scale=0.0058208546 maximum=127 minimum=-128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*128 1*4 1*512 1*16384]              ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*8 1*4 1*12 1*8]                     ; 1 step
        b: 0x8200 [1*4 1*4 1*20 1*64]                       ; 1 word, 4 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@7
        a: 0x100 [1*0 1*4]                                  ; 1 step
        b: 0x8200 [4*4 1*16 1*16 1*16]                      ; 4 words, 16 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=16 lanes=16 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*0 1*4 1*4]                              ; 1 step
        b: 0x8200 [2*4 1*8 1*8]                             ; 2 words, 8 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=4 lanes=4 nlu output16 scale=1.4959596 maximum=32767 minimum=-32768

    mac tiles=r1c1
        a: 0x100 [1*0 1*4 1*64]                             ; 1 step
        b: 0x8200 [2*4 1*8 1*128]                           ; 2 words, 8 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.4959596 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*8 1*4 1*4 1*16]                     ; 1 step
        b: 0x8200 [6*4 1*24 1*72 1*64]                      ; 6 words, 24 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=24 lanes=24 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*12 1*4 1*8 1*12]                    ; 1 step
        b: 0x8200 [11*4 1*44 1*88 1*64]                     ; 11 words, 44 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*4 1*16] ping(4, 16)             ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*4]                         ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: wide_to_narrow>=-30000+4*i@4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*4 1*12] ping(4, 48)             ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*16]                        ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*1 1*1] ping(4, 16)              ; 1 step
        b: 0x8200 [1*4 1*4 1*12 1*192]                      ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.011641709 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1
        a: 0x100 [3*1]                                      ; 3 steps
        b: 0x8200 [1*4]                                     ; 1 word, 4 B
        c: 0x400 [3*1]                                      ; 3 steps
        d: 0x1800 [3*0] ping(1, 4)                          ; 3 steps
        loops: loops=3
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.006721344 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [2*16 1*64 1*4 1*1]                        ; 2 steps
        b: 0x8200 [1*4 1*8 1*8]                             ; 1 word, 4 B
        c: 0x400 [2*1]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.008231931 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [18*4 1*4]                                 ; 18 steps
        b: 0x8200 [1*4]                                     ; 1 word, 4 B
        c: 0x400 [18*0]                                     ; 18 steps
        d: 0x1800 [18*0] ping(1, 4)                         ; 18 steps
        loops: loops=18
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0013719886 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 1*4 1*24 1*72]                        ; 2 steps
        b: 0x8200 [1*4 1*16 1*64]                           ; 1 word, 4 B
        c: 0x400 [2*4]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 1*24 1*4 1*4 1*72]                    ; 2 steps
        b: 0x8200 [1*4 1*4 1*12]                            ; 1 word, 4 B
        c: 0x400 [2*0]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [4*4 1*4]                                  ; 4 steps
        b: 0x8200 [1*4 1*4]                                 ; 1 word, 4 B
        c: 0x400 [4*4] ping(2, 16)                          ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        wait: ring_read_a>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@1
        a: 0x100 [4*4]                                      ; 4 steps
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [4*4]                                      ; 4 steps
        d: 0x1800 [4*0]                                     ; 4 steps
        loops: loops=4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=64 lanes=64 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@1
        a: 0x100 [20*4]                                     ; 20 steps
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [20*4]                                     ; 20 steps
        d: 0x1800 [20*0]                                    ; 20 steps
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=20
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=276 zero_point_step=1 zero_point_base=276
        output: block_level=1 reduction=0x1 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@1
        a: 0x100 [20*4]                                     ; 20 steps
        b: 0x8200 [4*4]                                     ; 4 words, 16 B
        c: 0x400 [20*4]                                     ; 20 steps
        d: 0x1800 [20*0]                                    ; 20 steps
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=20
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=276 zero_point_step=1 zero_point_base=276
        output: block_level=1 reduction=0x1 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@1
        a: 0x100 [3*4]                                      ; 3 steps
        b: 0x8200 [5*4]                                     ; 5 words, 20 B
        c: 0x400 [3*4]                                      ; 3 steps
        d: 0x1800 [3*0]                                     ; 3 steps
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=259 zero_point_step=1 zero_point_base=259
        output: block_level=1 reduction=0x1 lanes_last=20 lanes=20 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 1*8 1*8]                              ; 2 steps
        b: 0x8200 [2*4 1*16]                                ; 2 words, 8 B
        c: 0x400 [2*2 1*4]                                  ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 nlu nlu_rsqrt output16 scale=0.0058435923 maximum=32767 minimum=-32768

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [5*4 1*20]                                 ; 5 steps
        b: 0x8200 [5*4 1*20]                                ; 5 words, 20 B
        c: 0x400 [5*4] ping(2, 20)                          ; 5 steps
        d: 0x1800 [5*0] ping(1, 4)                          ; 5 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [2*4 1*8]                                  ; 2 steps
        b: 0x8200 [8*4 1*32] part(1, 5)                     ; 5 words, 20 B
        c: 0x400 [2*4] ping(2, 8)                           ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=20 lanes=32 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [2*1 1*4 1*2 1*2] ping(4, 20)              ; 2 steps
        b: 0x8200 [1*4 1*4 1*4 1*40]                        ; 1 word, 4 B
        c: 0x400 [2*1]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.008231931 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*8]                                      ; 2 steps
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [1*0 2*0]                                  ; 2 steps
        d: 0x1800 [2*0] ping(0, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: lanes_last=16 lanes=16 output16 scale=0.008264087 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1
        a: 0x100 [2*4]                                      ; 2 steps
        b: 0x8200 [2*4]                                     ; 2 words, 8 B
        c: 0x400 [1*0 2*0]                                  ; 2 steps
        d: 0x1800 [2*0] ping(0, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu scale=0.0058208546 maximum=127 minimum=-128

    mac tiles=r1c1
        a: 0x100 [2*4]                                      ; 2 steps
        b: 0x8200 [4*4]                                     ; 4 words, 16 B
        c: 0x400 [1*0 2*0]                                  ; 2 steps
        d: 0x1800 [2*0] ping(0, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu output16 scale=1.4959596 maximum=32767 minimum=-32768

    mac tiles=r1c1
        a: 0x100 [2*4]                                      ; 2 steps
        b: 0x8200 [4*4]                                     ; 4 words, 16 B
        c: 0x400 [1*0 2*0]                                  ; 2 steps
        d: 0x1800 [2*0] ping(0, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 output16 scale=1.4959596 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1
        a: 0x100 [26*2]                                     ; 26 steps
        b: 0x8200 [13*4]                                    ; 13 words, 52 B
        c: 0x400 [2*4 13*0]                                 ; 26 steps
        d: 0x1800 [2*0 13*0] ping(1, 4)                     ; 26 steps
        loops: loops=2,13
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=2.2737713e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [8*4]                                      ; 8 steps
        b: 0x8200 [2*28 2*84]                               ; 4 words, 16 B
        c: 0x400 [2*4 4*0]                                  ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        loops: loops=2,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@1
        a: 0x100 [86*4]                                     ; 86 steps
        b: 0x8200 [1*0 86*4]                                ; 86 words, 344 B
        c: 0x400 [43*4 2*0] ping(1, 172)                    ; 86 steps
        d: 0x1800 [1*0 86*0] ping(1, 4)                     ; 86 steps
        wait: narrow_to_wide>=-30000+1*i@1
        loops: loops=43,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1
        a: 0x100 [63*1 1*64] part(1, 60)                    ; 60 steps
        b: 0x8200 [15*4]                                    ; 15 words, 60 B
        c: 0x400 [4*1 15*0]                                 ; 60 steps
        d: 0x1800 [4*0 15*0] ping(1, 4)                     ; 60 steps
        loops: loops=4,15
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*4 4*12 1*4]                             ; 12 steps
        b: 0x8200 [1*4 1*4]                                 ; 1 word, 4 B
        c: 0x400 [12*4] ping(2, 48)                         ; 12 steps
        d: 0x1800 [12*0] ping(1, 4)                         ; 12 steps
        wait: ring_read_a>=-30000+1*i@2
        loops: loops=3,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=0.001680336 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*4 3*12 1*4]                             ; 9 steps
        b: 0x8200 [1*4 1*4]                                 ; 1 word, 4 B
        c: 0x400 [9*4] ping(2, 36)                          ; 9 steps
        d: 0x1800 [9*0] ping(1, 4)                          ; 9 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 4*8 1*4 1*4 1*8]                      ; 4 steps
        b: 0x8200 [1*4 1*12 1*24 1*64]                      ; 1 word, 4 B
        c: 0x400 [4*4] ping(2, 16)                          ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0029104273 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 6*16 1*4 1*12 1*16]                   ; 24 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [24*4] ping(2, 96)                         ; 24 steps
        d: 0x1800 [24*0] ping(1, 4)                         ; 24 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*2 2*16 1*8 1*8 1*8]                     ; 8 steps
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [4*2 2*8 1*0 1*16 1*16]                    ; 8 steps
        d: 0x1800 [8*0] ping(1, 4)                          ; 8 steps
        loops: loops=4,2
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=6.280465e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*4 4*4 1*4 1*12 1*4]                     ; 4 steps
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [1*0 4*0]                                  ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        loops: loops=1,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*0 2*0 1*4 1*0 1*4 1*0 1*12]             ; 4 steps
        b: 0x8200 [1*4 1*4 1*4 1*12 1*12]                   ; 1 word, 4 B
        c: 0x400 [2*4 2*8 1*0 1*16 1*0 1*48]                ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        loops: loops=2,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0x3 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x108 [2*2 2*-8 1*4 1*4 1*4]                     ; 4 steps
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [2*4 2*8]                                  ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        loops: loops=2,2
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*4 4*12 1*12]                            ; 12 steps
        b: 0x8200 [9*4 1*36]                                ; 9 words, 36 B
        c: 0x400 [12*4] ping(2, 48)                         ; 12 steps
        d: 0x1800 [12*0] ping(1, 4)                         ; 12 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=36 lanes=36 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*12 1*4 1*4 1*12]                    ; 9 steps
        b: 0x8200 [2*4 1*8 1*8 1*64]                        ; 2 words, 8 B
        c: 0x400 [9*4] ping(2, 36)                          ; 9 steps
        d: 0x1800 [9*0] ping(1, 4)                          ; 9 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*16 1*4 1*4 1*16]                    ; 9 steps
        b: 0x8200 [10*4 1*40 1*240 1*64]                    ; 10 words, 40 B
        c: 0x400 [9*4] ping(2, 36)                          ; 9 steps
        d: 0x1800 [9*0] ping(1, 4)                          ; 9 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=40 lanes=40 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 2*28 1*4 1*12 1*28]                   ; 6 steps
        b: 0x8200 [11*4 1*44 1*88 1*64]                     ; 11 words, 44 B
        c: 0x400 [6*4] ping(2, 24)                          ; 6 steps
        d: 0x1800 [6*0] ping(1, 4)                          ; 6 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [3*4 5*36]                                 ; 15 steps
        b: 0x8200 [15*4]                                    ; 15 words, 60 B
        c: 0x400 [1*0 15*0]                                 ; 15 steps
        d: 0x1800 [15*0] ping(0, 4)                         ; 15 steps
        loops: loops=1,15
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu scale=0.0058208546 maximum=127 minimum=-128

    mac tiles=r1c1
        a: 0x100 [7*4 2*32]                                 ; 14 steps
        b: 0x8200 [28*4]                                    ; 28 words, 112 B
        c: 0x400 [1*0 14*0]                                 ; 14 steps
        d: 0x1800 [14*0] ping(0, 4)                         ; 14 steps
        loops: loops=1,14
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu output16 scale=1.4959596 maximum=32767 minimum=-32768

    mac tiles=r1c1
        a: 0x100 [7*4 2*32]                                 ; 14 steps
        b: 0x8200 [28*4]                                    ; 28 words, 112 B
        c: 0x400 [1*0 14*0]                                 ; 14 steps
        d: 0x1800 [14*0] ping(0, 4)                         ; 14 steps
        loops: loops=1,14
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 output16 scale=1.4959596 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1
        a: 0x100 [2*4 2*8 1*16]                             ; 4 steps
        b: 0x8200 [2*4 1*16]                                ; 2 words, 8 B
        c: 0x400 [2*2 2*4]                                  ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        loops: loops=2,2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 nlu nlu_rsqrt output16 scale=0.0041320436 maximum=32767 minimum=-32768

    mac tiles=r1c1
        a: 0x100 [1*0 17*4 1*68 1*136]                      ; 17 steps
        b: 0x8200 [17*4 1*68 1*136]                         ; 17 words, 68 B
        c: 0x400 [1*0 17*4]                                 ; 17 steps
        d: 0x1800 [1*0 17*0] ping(1, 4)                     ; 17 steps
        wait: narrow_to_wide>=0@1
        loops: loops=1,17
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*4 7*48]                                 ; 28 steps
        b: 0x8200 [7*64]                                    ; 7 words, 28 B
        c: 0x400 [4*2 7*0]                                  ; 28 steps
        d: 0x1800 [4*0 7*0] ping(1, 4)                      ; 28 steps
        loops: loops=4,7
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 2*24]                                 ; 4 steps
        b: 0x8200 [2*16]                                    ; 2 words, 8 B
        c: 0x400 [2*4 2*0]                                  ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        loops: loops=2,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*32 4*4]                                 ; 8 steps
        b: 0x8200 [8*4]                                     ; 8 words, 32 B
        c: 0x400 [2*4 4*0]                                  ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        loops: loops=2,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.0578032 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 parameters=@1
        a: 0x100 [18*4 9*96]                                ; 162 steps
        b: 0x8200 [162*4]                                   ; 162 words, 648 B
        c: 0x400 [18*4 9*0] ping(1, 72)                     ; 162 steps
        d: 0x1800 [162*0] ping(0, 4)                        ; 162 steps
        wait: narrow_to_wide>=-30000+1*i@1
        loops: loops=18,9
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [60*4 70*240]                              ; 4200 steps
        b: 0x8200 [9*4 1*64]                                ; 9 words, 36 B
        c: 0x400 [60*4 70*0] ping(1, 240)                   ; 4200 steps
        d: 0x1800 [60*0 70*0] ping(2, 4)                    ; 4200 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=60,70
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=379 zero_point_step=3 zero_point_base=376
        output: block_level=2 reduction=0x3 lanes_last=36 lanes=36 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 4*4 1*16 1*32]                        ; 4 steps
        b: 0x8200 [4*4 1*16 1*128]                          ; 4 words, 16 B
        c: 0x400 [1*0 4*4 1*16 1*16] ping(4, 16)            ; 4 steps
        d: 0x1800 [1*0 4*0] ping(1, 4)                      ; 4 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*24 4*4]                                 ; 8 steps
        b: 0x8200 [2*4 2*24]                                ; 4 words, 16 B
        c: 0x400 [2*4 4*0]                                  ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        loops: loops=2,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [2*4 19*40 1*8]                            ; 38 steps
        b: 0x8200 [10*4 19*56 1*40] part(2, 7)              ; 133 words, 532 B
        c: 0x400 [2*4 19*0] ping(2, 8)                      ; 38 steps
        d: 0x1800 [2*0 19*0] ping(1, 4)                     ; 38 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=2,19
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=28 lanes=40 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [9*4 8*48 1*4]                             ; 72 steps
        b: 0x8200 [5*4 3*12 8*36 1*20] part(3, 3)           ; 72 words, 288 B
        c: 0x400 [9*4 8*0] ping(2, 36)                      ; 72 steps
        d: 0x1800 [9*0 8*0] ping(1, 4)                      ; 72 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=36 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 2*0 7*48]                             ; 28 steps
        b: 0x8200 [7*64]                                    ; 7 words, 28 B
        c: 0x400 [4*2 7*0]                                  ; 28 steps
        d: 0x1800 [4*0 7*0] ping(1, 4)                      ; 28 steps
        loops: loops=4,7
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*2 2*16 2*8]                             ; 16 steps
        b: 0x8200 [2*4]                                     ; 2 words, 8 B
        c: 0x400 [8*2 2*0]                                  ; 16 steps
        d: 0x1800 [8*0 2*0] ping(1, 4)                      ; 16 steps
        loops: loops=8,2
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=6.280465e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*0 2*32 2*0]                             ; 8 steps
        b: 0x8200 [2*104]                                   ; 2 words, 8 B
        c: 0x400 [4*4 2*48]                                 ; 8 steps
        d: 0x1800 [4*0 2*0] ping(1, 4)                      ; 8 steps
        loops: loops=4,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*2 2*60 2*16]                            ; 8 steps
        b: 0x8200 [2*4]                                     ; 2 words, 8 B
        c: 0x400 [4*4 2*0]                                  ; 8 steps
        d: 0x1800 [4*0 2*0] ping(1, 4)                      ; 8 steps
        loops: loops=4,2
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [5*4 2*52 5*8]                             ; 50 steps
        b: 0x8200 [1*0 20*4]                                ; 20 words, 80 B
        c: 0x400 [10*4 5*0]                                 ; 50 steps
        d: 0x1800 [10*0 5*0] ping(1, 4)                     ; 50 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=10,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*0 1*0 504*4]                            ; 504 steps
        b: 0x8200 [1*0 81*4]                                ; 81 words, 324 B
        c: 0x400 [56*4 9*0]                                 ; 504 steps
        d: 0x1800 [56*0 9*0] ping(1, 4)                     ; 504 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=56,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=36 lanes=36 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 2*4 2*384]                            ; 8 steps
        b: 0x8200 [2*4 2*64]                                ; 4 words, 16 B
        c: 0x400 [2*4 4*0]                                  ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        loops: loops=2,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 2*4 9*32]                             ; 36 steps
        b: 0x8200 [4*4 2*32 9*128]                          ; 72 words, 288 B
        c: 0x400 [2*4 18*0]                                 ; 36 steps
        d: 0x1800 [2*0 18*0] ping(1, 4)                     ; 36 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=2,18
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 6*40 9*4]                             ; 108 steps
        b: 0x8200 [3*4 4*132 9*12]                          ; 108 words, 432 B
        c: 0x400 [12*4 9*0]                                 ; 108 steps
        d: 0x1800 [12*0 9*0] ping(1, 4)                     ; 108 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=12,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*8 11*28 4*4]                            ; 132 steps
        b: 0x8200 [3*4 5*48 4*12]                           ; 60 words, 240 B
        c: 0x400 [33*4 4*0]                                 ; 132 steps
        d: 0x1800 [33*0 4*0] ping(1, 4)                     ; 132 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=33,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=60 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 8*4 54*136]                           ; 864 steps
        b: 0x8200 [8*4 3*72 18*432]                         ; 432 words, 1728 B
        c: 0x400 [2*4 432*0]                                ; 864 steps
        d: 0x1800 [2*0 432*0] ping(1, 4)                    ; 864 steps
        loops: loops=2,432
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [6*56 4*12 3*112]                          ; 72 steps
        b: 0x8200 [6*4 2*120 4*24 3*240]                    ; 144 words, 576 B
        c: 0x400 [6*4 12*0]                                 ; 72 steps
        d: 0x1800 [6*0 12*0] ping(1, 4)                     ; 72 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,12
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.002376354 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*8 2*32 2*4 4*64]                        ; 32 steps
        b: 0x8200 [8*4]                                     ; 8 words, 32 B
        c: 0x400 [1*0 32*0]                                 ; 32 steps
        d: 0x1800 [4*0 8*0] ping(1, 4)                      ; 32 steps
        loops: loops=4,8
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*2 2*1888 3*4 2*48]                      ; 24 steps
        b: 0x8200 [6*4]                                     ; 6 words, 24 B
        c: 0x400 [4*4 6*0]                                  ; 24 steps
        d: 0x1800 [4*0 6*0] ping(1, 4)                      ; 24 steps
        loops: loops=4,6
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [32*4 3*1088 16*64 3*1088]                 ; 4608 steps
        b: 0x8200 [1*0 768*4]                               ; 768 words, 3072 B
        c: 0x400 [96*4 48*0]                                ; 4608 steps
        d: 0x1800 [96*0 48*0] ping(1, 4)                    ; 4608 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=96,48
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [15*4 3*96 2*36 4*192]                     ; 360 steps
        b: 0x8200 [1*0 24*4]                                ; 24 words, 96 B
        c: 0x400 [45*4 8*0]                                 ; 360 steps
        d: 0x1800 [45*0 8*0] ping(1, 4)                     ; 360 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=45,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=12 scale=0.0008677218 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [5*4 2*52 5*8 2*52]                        ; 100 steps
        b: 0x8200 [1*0 40*4]                                ; 40 words, 160 B
        c: 0x400 [10*4 10*0]                                ; 100 steps
        d: 0x1800 [10*0 10*0] ping(1, 4)                    ; 100 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=10,10
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 2*4 2*32 2*384]                       ; 16 steps
        b: 0x8200 [4*4 2*64]                                ; 8 words, 32 B
        c: 0x400 [2*4 8*0]                                  ; 16 steps
        d: 0x1800 [2*0 8*0] ping(1, 4)                      ; 16 steps
        loops: loops=2,8
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [16*4 6*448 7*64 2*1344]                   ; 1344 steps
        b: 0x8200 [4*28 7*4 2*84]                           ; 56 words, 224 B
        c: 0x400 [96*4 14*0]                                ; 1344 steps
        d: 0x1800 [96*0 14*0] ping(1, 4)                    ; 1344 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=96,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0005940885 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [9*12 2*104 3*4 3*104]                     ; 162 steps
        b: 0x8200 [5*12 3*4 3*64]                           ; 45 words, 180 B
        c: 0x400 [18*4 9*0]                                 ; 162 steps
        d: 0x1800 [18*0 9*0] ping(1, 4)                     ; 162 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=18,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=20 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*4 2*36 2*8 8*36]                        ; 192 steps
        b: 0x8200 [6*4 2*16 8*80]                           ; 96 words, 384 B
        c: 0x400 [12*4 16*0]                                ; 192 steps
        d: 0x1800 [12*0 16*0] ping(1, 4)                    ; 192 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=12,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 3*4 5*36 2*216]                       ; 60 steps
        b: 0x8200 [3*4 5*16 2*96]                           ; 30 words, 120 B
        c: 0x400 [2*4 30*0]                                 ; 60 steps
        d: 0x1800 [2*0 30*0] ping(1, 4)                     ; 60 steps
        loops: loops=2,30
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 6*64 7*8 2*256]                       ; 336 steps
        b: 0x8200 [2*4 4*64 7*8 2*256]                      ; 112 words, 448 B
        c: 0x400 [24*4 14*0]                                ; 336 steps
        d: 0x1800 [24*0 14*0] ping(1, 4)                    ; 336 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=24,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=32 lanes=32 scale=0.001188177 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 6*32 3*8 4*64]                        ; 144 steps
        b: 0x8200 [8*4 2*128 3*32 4*256]                    ; 192 words, 768 B
        c: 0x400 [12*4 12*0]                                ; 144 steps
        d: 0x1800 [12*0 12*0] ping(1, 4)                    ; 144 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=12,12
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 4*32 3*8 5*64]                        ; 240 steps
        b: 0x8200 [6*4 2*96 3*24 5*192]                     ; 180 words, 720 B
        c: 0x400 [16*4 15*0]                                ; 240 steps
        d: 0x1800 [16*0 15*0] ping(1, 4)                    ; 240 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=16,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*8 4*128 2*4 4*32 4*512]                 ; 512 steps
        b: 0x8200 [32*4]                                    ; 32 words, 128 B
        c: 0x400 [1*0 512*0]                                ; 512 steps
        d: 0x1800 [16*0 32*0] ping(1, 4)                    ; 512 steps
        loops: loops=16,32
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0014552136 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [3*12 4*372 3*4 14*24 40*372]              ; 20160 steps
        b: 0x8200 [42*4 40*180]                             ; 1680 words, 6720 B
        c: 0x400 [504*0 40*0]                               ; 20160 steps
        d: 0x1800 [12*0 1680*0] ping(1, 4)                  ; 20160 steps
        loops: loops=12,1680
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.001680336 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [11*4 1*0 1*0 1*0 2*88]                    ; 22 steps
        b: 0x8200 [11*4 1*0 2*88]                           ; 22 words, 88 B
        c: 0x400 [1*0 22*0]                                 ; 22 steps
        d: 0x1800 [22*0] ping(0, 4)                         ; 22 steps
        loops: loops=1,22
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: lanes_last=4 lanes=4 nlu scale=0.0058208546 maximum=127 minimum=-128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*0 1*0 1*0 1*0 2*4]                      ; 2 steps
        b: 0x8200 [1*0 1*0 4*4]                             ; 4 words, 16 B
        c: 0x400 [1*0 2*0] ping(2, 4)                       ; 2 steps
        d: 0x1800 [1*0 2*0] ping(1, 4)                      ; 2 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 2*28 1*0 1*0 2*12]                    ; 12 steps
        b: 0x8200 [1*0 1*0 22*4]                            ; 22 words, 88 B
        c: 0x400 [6*4 2*0] ping(2, 24)                      ; 12 steps
        d: 0x1800 [6*0 2*0] ping(1, 4)                      ; 12 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=44 lanes=44 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*32 1*1024 8*4 1*4096 1*131072]          ; 8 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [8*4] ping(2, 32)                          ; 8 steps
        d: 0x1800 [8*0] ping(1, 4)                          ; 8 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0020579828 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*8 1*8 2*4 1*8 1*8]                      ; 2 steps
        b: 0x8200 [2*4 1*8 1*8 1*64]                        ; 2 words, 8 B
        c: 0x400 [2*4] ping(2, 8)                           ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*16 2*192 2*4 1*8 1*64]                  ; 16 steps
        b: 0x8200 [15*4 1*60 1*120 1*64]                    ; 15 words, 60 B
        c: 0x400 [16*4] ping(2, 64)                         ; 16 steps
        d: 0x1800 [16*0] ping(1, 4)                         ; 16 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=60 lanes=60 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*8 2*48 2*4 1*16 1*48]                   ; 16 steps
        b: 0x8200 [2*4 1*8 1*16 1*64]                       ; 2 words, 8 B
        c: 0x400 [16*4] ping(2, 64)                         ; 16 steps
        d: 0x1800 [16*0] ping(1, 4)                         ; 16 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*44 1*88 11*4 1*88 1*264]                ; 11 steps
        b: 0x8200 [6*4 1*24 1*72 1*64]                      ; 6 words, 24 B
        c: 0x400 [11*4] ping(2, 44)                         ; 11 steps
        d: 0x1800 [11*0] ping(1, 4)                         ; 11 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,11
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=24 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1
        a: 0x100 [2*2 2*4 5*8]                              ; 20 steps
        b: 0x8200 [5*4]                                     ; 5 words, 20 B
        c: 0x400 [2*2 2*4 5*8]                              ; 20 steps
        d: 0x1800 [4*0 5*0] ping(1, 4)                      ; 20 steps
        wait: narrow_to_wide>=-30000+1*i@2
        loops: loops=2,2,5
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 scale=8.881919e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1
        a: 0x100 [2*2 2*4 5*8]                              ; 20 steps
        b: 0x8200 [2*4 5*8]                                 ; 10 words, 40 B
        c: 0x400 [2*2 2*4 5*8]                              ; 20 steps
        d: 0x1800 [4*0 5*0] ping(1, 4)                      ; 20 steps
        wait: narrow_to_wide>=-30000+1*i@2
        loops: loops=2,2,5
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 output16 scale=2.2826533e-05 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@1
        a: 0x100 [2*2 2*4 5*8]                              ; 20 steps
        b: 0x8200 [2*4 5*8]                                 ; 10 words, 40 B
        c: 0x400 [2*2 2*4 5*8]                              ; 20 steps
        d: 0x1800 [4*0 5*0] ping(1, 4)                      ; 20 steps
        loops: loops=2,2,5
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 output16 scale=2.2826533e-05 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@1
        a: 0x100 [2*6 2*24 5*32]                            ; 20 steps
        b: 0x8200 [8*4 5*32]                                ; 40 words, 160 B
        c: 0x400 [2*1 2*2 5*0]                              ; 20 steps
        d: 0x1800 [4*0 5*0] ping(1, 4)                      ; 20 steps
        loops: loops=2,2,5
        operands: accumulate a16 idle_multipliers=0,1,1
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=16 lanes=16 nlu output16 scale=0.0058435923 nlu_odd=3 maximum=32767 minimum=-32768

    mac tiles=r1c1 avdata=@1
        a: 0x100 [4*2 2*40 5*8]                             ; 40 steps
        b: 0x8200 [8*4 5*32]                                ; 40 words, 160 B
        c: 0x400 [4*1 2*0 5*0]                              ; 40 steps
        d: 0x1800 [8*0 5*0] ping(1, 4)                      ; 40 steps
        loops: loops=4,2,5
        operands: accumulate a16 idle_multipliers=0,1,1
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=16 lanes=16 output16 scale=0.0041320436 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1
        a: 0x100 [2*4 1*8 2*8]                              ; 4 steps
        b: 0x8200 [2*4 2*16]                                ; 4 words, 16 B
        c: 0x400 [2*2 1*4 2*0]                              ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        loops: loops=2,1,2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 nlu nlu_rsqrt output16 scale=0.0058435923 maximum=32767 minimum=-32768

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*12 3*96 3*4]                            ; 27 steps
        b: 0x8200 [2*4 3*8]                                 ; 6 words, 24 B
        c: 0x400 [9*4 1*0 3*36]                             ; 27 steps
        d: 0x1800 [9*0 1*0 3*0] ping(1, 4)                  ; 27 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=3,3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=8 lanes=8 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*0 1*4 2*4 1*12]                         ; 2 steps
        b: 0x8200 [1*4 2*4 1*12]                            ; 2 words, 8 B
        c: 0x400 [1*0 1*4 2*0]                              ; 2 steps
        d: 0x1800 [1*0 1*0 2*0] ping(1, 4)                  ; 2 steps
        wait: narrow_to_wide>=0@1
        loops: loops=1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [16*4 9*512 8*64]                          ; 1152 steps
        b: 0x8200 [16*4 8*64]                               ; 128 words, 512 B
        c: 0x400 [144*4 1*0 8*0] ping(1, 576)               ; 1152 steps
        d: 0x1800 [144*0 1*0 8*0] ping(2, 4)                ; 1152 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=144,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [4*4 9*128 8*16]                           ; 288 steps
        b: 0x8200 [4*4 8*16]                                ; 32 words, 128 B
        c: 0x400 [36*4 1*0 8*0] ping(1, 144)                ; 288 steps
        d: 0x1800 [36*0 1*0 8*0] ping(2, 4)                 ; 288 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [3*4 9*24 2*12]                            ; 54 steps
        b: 0x8200 [3*4 2*12]                                ; 6 words, 24 B
        c: 0x400 [27*4 1*0 2*0] ping(1, 108)                ; 54 steps
        d: 0x1800 [27*0 1*0 2*0] ping(2, 4)                 ; 54 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=27,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=12 lanes=12 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 4*4 2*16 1*32]                        ; 8 steps
        b: 0x8200 [4*4 2*16 1*128]                          ; 8 words, 32 B
        c: 0x400 [1*0 4*4 2*16 1*32] ping(4, 32)            ; 8 steps
        d: 0x1800 [1*0 4*0 2*0] ping(1, 4)                  ; 8 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,4,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*576 3*3456 144*4]                       ; 1296 steps
        b: 0x8200 [1*4 144*4]                               ; 144 words, 576 B
        c: 0x400 [9*4 1*0 4*36 36*0]                        ; 1296 steps
        d: 0x1800 [9*0 1*0 144*0] ping(1, 4)                ; 1296 steps
        wait: ring_read_a>=-30000+1*i@2
        loops: loops=3,3,144
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*512 3*3072 128*4]                       ; 1152 steps
        b: 0x8200 [1*4 128*4]                               ; 128 words, 512 B
        c: 0x400 [9*4 1*0 4*36 32*0]                        ; 1152 steps
        d: 0x1800 [9*0 1*0 128*0] ping(1, 4)                ; 1152 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,3,128
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*576 3*3456 144*4]                       ; 1296 steps
        b: 0x8200 [1*4 144*4]                               ; 144 words, 576 B
        c: 0x400 [9*4 1*0 4*36 36*0]                        ; 1296 steps
        d: 0x1800 [9*0 1*0 144*0] ping(1, 4)                ; 1296 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,3,144
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*4 3*24 3*4 1*4]                         ; 27 steps
        b: 0x8200 [5*4 3*12 1*20] part(2, 3)                ; 9 words, 36 B
        c: 0x400 [9*4 3*0] ping(2, 36)                      ; 27 steps
        d: 0x1800 [9*0 3*0] ping(1, 4)                      ; 27 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=12 lanes=20 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2
        a: 0x100 [7*4 28*28 4*0]                            ; 784 steps
        b: 0x8200 [10*4 28*160 4*40]                        ; 1120 words, 4480 B
        c: 0x400 [7*4 28*0 4*36]                            ; 784 steps
        d: 0x1800 [7*0 28*0 4*0] ping(1, 4)                 ; 784 steps
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=7,28,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=20 output16 scale=1 bias_in_memory scale_in_memory maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@2
        a: 0x100 [5*4 1*0 4*0]                              ; 20 steps
        b: 0x8200 [10*4 1*160 4*40]                         ; 40 words, 160 B
        c: 0x400 [5*4 1*0 4*24]                             ; 20 steps
        d: 0x1800 [5*0 1*0 4*0] ping(1, 4)                  ; 20 steps
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=20 output16 scale=1 scale_in_memory maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1
        a: 0x100 [2*32 4*4 2*0 1*1184]                      ; 16 steps
        b: 0x8200 [2*4 4*8 2*48 1*96]                       ; 16 words, 64 B
        c: 0x400 [2*4 4*0 2*8]                              ; 16 steps
        d: 0x1800 [2*0 4*0 2*0] ping(1, 4)                  ; 16 steps
        loops: loops=2,4,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.0578032 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [6*80 10*80 20*4]                          ; 1200 steps
        b: 0x8200 [4*4 10*316 20*16] part(2, 3)             ; 790 words, 3160 B
        c: 0x400 [6*4 10*0 5*24 4*0]                        ; 1200 steps
        d: 0x1800 [6*0 10*0 20*0] ping(1, 4)                ; 1200 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,10,20
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=16 scale=0.002376354 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*4 5*820 14*12]                          ; 210 steps
        b: 0x8200 [3*4 5*656 14*12] part(2, 2)              ; 205 words, 820 B
        c: 0x400 [3*4 5*0 7*12 2*0]                         ; 210 steps
        d: 0x1800 [3*0 5*0 14*0] ping(1, 4)                 ; 210 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,5,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=12 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 2*24 19*40 1*8]                       ; 76 steps
        b: 0x8200 [10*4 2*28 19*56 1*40] part(3, 7)         ; 266 words, 1064 B
        c: 0x400 [2*4 38*0] ping(2, 8)                      ; 76 steps
        d: 0x1800 [2*0 38*0] ping(1, 4)                     ; 76 steps
        wait: ring_read_b>=-30000+1*i@3
        loops: loops=2,2,19
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=28 lanes=40 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 4*24 9*324 1*12]                      ; 108 steps
        b: 0x8200 [9*4 4*32 9*256 1*36] part(3, 8)          ; 288 words, 1152 B
        c: 0x400 [3*4 36*0] ping(2, 12)                     ; 108 steps
        d: 0x1800 [3*0 36*0] ping(1, 4)                     ; 108 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,4,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=32 lanes=36 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*8 3*56 4*8 2*4]                         ; 72 steps
        b: 0x8200 [1*0 8*4]                                 ; 8 words, 32 B
        c: 0x400 [9*4 4*0 2*0] ping(2, 36)                  ; 72 steps
        d: 0x1800 [9*0 4*4 2*0]                             ; 72 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=8 lanes=8 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*0 1*0 1*0 9*4]                          ; 9 steps
        b: 0x8200 [15*4 1*0 1*0 3*60]                       ; 45 words, 180 B
        c: 0x400 [3*4 1*0 3*12]                             ; 9 steps
        d: 0x1800 [3*0 1*0 3*0] ping(1, 4)                  ; 9 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=60 lanes=60 scale=0.003360672 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*0 1*0 1*0 21*4]                         ; 21 steps
        b: 0x8200 [7*4 1*0 1*0 3*28]                        ; 21 words, 84 B
        c: 0x400 [7*4 1*0 3*28]                             ; 21 steps
        d: 0x1800 [7*0 1*0 3*0] ping(1, 4)                  ; 21 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=7,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=28 lanes=28 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [13*96 8*12 1*0 3*4]                       ; 312 steps
        b: 0x8200 [7*96 8*12 1*0 3*4]                       ; 168 words, 672 B
        c: 0x400 [13*4 8*0 3*52]                            ; 312 steps
        d: 0x1800 [13*0 1*0 24*0] ping(1, 4)                ; 312 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=13,8,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=28 lanes=28 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*256 3*1280 16*16]                   ; 576 steps
        b: 0x8200 [4*4 1*0 1*0 16*16]                       ; 64 words, 256 B
        c: 0x400 [36*4 1*0 16*0] ping(2, 144)               ; 576 steps
        d: 0x1800 [36*0 1*0 16*0] ping(1, 4)                ; 576 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,1,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*8 4*64 5*128 2*4]                       ; 200 steps
        b: 0x8200 [30*8 1*0 1*0 2*4]                        ; 60 words, 240 B
        c: 0x400 [20*4 5*0 2*0] ping(2, 80)                 ; 200 steps
        d: 0x1800 [20*0 1*0 10*0] ping(1, 4)                ; 200 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=20,5,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [9*12 1*0 1*0 3*4]                         ; 27 steps
        b: 0x8200 [4*4 1*0 1*0 3*16] part(3, 3)             ; 11 words, 44 B
        c: 0x400 [9*4 1*0 3*36]                             ; 27 steps
        d: 0x1800 [9*0 1*0 3*0] ping(1, 4)                  ; 27 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*0 1*0 1*0 2*0]                          ; 2 steps
        b: 0x8200 [16*4 1*0 1*0 2*64] part(3, 5)            ; 21 words, 84 B
        c: 0x400 [1*0 1*0 2*0] ping(2, 4)                   ; 2 steps
        d: 0x1800 [1*0 1*0 2*0] ping(1, 4)                  ; 2 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=1,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 1*0 1*0 3*0]                          ; 15 steps
        b: 0x8200 [16*4 1*0 1*0 3*64] part(3, 5)            ; 37 words, 148 B
        c: 0x400 [5*4 1*0 3*0] ping(2, 20)                  ; 15 steps
        d: 0x1800 [5*0 1*0 3*0] ping(1, 4)                  ; 15 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 3*36 1*0 2*20]                        ; 30 steps
        b: 0x8200 [15*4 3*108 1*0 2*60] part(3, 12)         ; 81 words, 324 B
        c: 0x400 [5*4 3*0 2*0] ping(2, 20)                  ; 30 steps
        d: 0x1800 [5*0 1*0 6*0] ping(1, 4)                  ; 30 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,3,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*8 3*56 4*8 2*168 2*4]                   ; 144 steps
        b: 0x8200 [8*4 2*48]                                ; 16 words, 64 B
        c: 0x400 [9*4 8*0 2*0] ping(2, 36)                  ; 144 steps
        d: 0x1800 [9*0 8*4 2*0]                             ; 144 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,8,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=8 lanes=8 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [8*32 2*720 2*16 2*240 4*4]                ; 256 steps
        b: 0x8200 [3*32 2*16 2*128 4*4]                     ; 48 words, 192 B
        c: 0x400 [16*4 4*0 4*64]                            ; 256 steps
        d: 0x1800 [16*0 1*0 16*0] ping(1, 4)                ; 256 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=16,4,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=12 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*256 3*1280 2*2560 16*16]            ; 1152 steps
        b: 0x8200 [4*4 2*512 1*0 16*16]                     ; 128 words, 512 B
        c: 0x400 [36*4 2*0 16*0] ping(2, 144)               ; 1152 steps
        d: 0x1800 [36*0 1*0 32*0] ping(1, 4)                ; 1152 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,2,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 5*40 6*240 2*40 5*8]                  ; 600 steps
        b: 0x8200 [2*4 2*40 1*0 5*8]                        ; 20 words, 80 B
        c: 0x400 [60*4 2*0 5*0] ping(2, 240)                ; 600 steps
        d: 0x1800 [60*0 1*0 10*0] ping(1, 4)                ; 600 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=60,2,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 4*48 3*336 2*144 6*8]                 ; 288 steps
        b: 0x8200 [2*4 2*48 1*0 6*8]                        ; 24 words, 96 B
        c: 0x400 [24*4 2*0 6*0] ping(2, 96)                 ; 288 steps
        d: 0x1800 [24*0 1*0 12*0] ping(1, 4)                ; 288 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=24,2,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*16 3*64 2*16 5*64 4*4]                  ; 360 steps
        b: 0x8200 [5*4 2*76 5*228 4*20] part(3, 4)          ; 190 words, 760 B
        c: 0x400 [9*4 10*0 4*36]                            ; 360 steps
        d: 0x1800 [9*0 1*0 40*0] ping(1, 4)                 ; 360 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,10,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*12 2*48 3*4 9*48 2*0]                   ; 216 steps
        b: 0x8200 [16*4 9*208 1*0 2*64] part(3, 10)         ; 234 words, 936 B
        c: 0x400 [12*4 9*0 2*0] ping(2, 48)                 ; 216 steps
        d: 0x1800 [12*0 1*0 18*0] ping(1, 4)                ; 216 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=12,9,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=40 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [6*8 6*144 4*32 4*576 2*4]                 ; 1152 steps
        b: 0x8200 [4*8 4*128 4*32 4*512 2*4]                ; 512 words, 2048 B
        c: 0x400 [36*4 16*0 2*0] ping(2, 144)               ; 1152 steps
        d: 0x1800 [36*0 1*0 32*0] ping(1, 4)                ; 1152 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,16,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*16 3*312 7*8 6*104 1*0 2*4]             ; 756 steps
        b: 0x8200 [1*0 672*4]                               ; 672 words, 2688 B
        c: 0x400 [9*4 42*0 2*0] ping(2, 36)                 ; 756 steps
        d: 0x1800 [9*0 42*4 2*0]                            ; 756 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,42,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*64 3*2176 32*64 3*2176 1*0 16*4]        ; 13824 steps
        b: 0x8200 [1*0 1536*4]                              ; 1536 words, 6144 B
        c: 0x400 [9*4 96*0 16*0] ping(2, 36)                ; 13824 steps
        d: 0x1800 [9*0 96*4 16*0]                           ; 13824 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,96,16
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [21*8 2*112 1*0 1*0 1*0 2*4]               ; 84 steps
        b: 0x8200 [1*0 6*4]                                 ; 6 words, 24 B
        c: 0x400 [21*4 2*0 2*0] ping(2, 84)                 ; 84 steps
        d: 0x1800 [21*0 2*4 2*0]                            ; 84 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=21,2,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=12 lanes=12 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*32 6*416 3*96 3*832 1*0 8*4]            ; 3024 steps
        b: 0x8200 [6*4 3*48]                                ; 18 words, 72 B
        c: 0x400 [42*4 9*0 8*0] ping(2, 168)                ; 3024 steps
        d: 0x1800 [42*0 9*4 8*0]                            ; 3024 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=42,9,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*144 3*2160 7*288 7*4320 1*0 36*4]       ; 15876 steps
        b: 0x8200 [49*144 1*0 36*4]                         ; 1764 words, 7056 B
        c: 0x400 [9*4 49*0 36*0] ping(2, 36)                ; 15876 steps
        d: 0x1800 [9*0 1*0 1764*0] ping(1, 4)               ; 15876 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,49,36
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*256 3*1280 2*512 2*2560 16*16]      ; 2304 steps
        b: 0x8200 [4*4 4*256 1*0 16*16]                     ; 256 words, 1024 B
        c: 0x400 [36*4 4*0 16*0] ping(2, 144)               ; 2304 steps
        d: 0x1800 [36*0 1*0 64*0] ping(1, 4)                ; 2304 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,4,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@1
        a: 0x100 [15*4 1*0 9*96]                            ; 135 steps
        b: 0x8200 [15*4 1*0 1*0 9*72]                       ; 135 words, 540 B
        c: 0x400 [15*4 1*0 1*0 9*0] ping(1, 60)             ; 135 steps
        d: 0x1800 [1*0 1*0 1*0 135*0] ping(1, 4)            ; 135 steps
        wait: narrow_to_wide>=-30000+1*i@1
        loops: loops=15,1,1,9
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*2 2*6768 47*8 8*376 1*3008]             ; 3008 steps
        b: 0x8200 [47*4 8*188 1*1692]                       ; 376 words, 1504 B
        c: 0x400 [4*2 2*8 47*0 8*16 1*128]                  ; 3008 steps
        d: 0x1800 [8*0 47*0 8*0] ping(1, 4)                 ; 3008 steps
        loops: loops=4,2,47,8
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=6.280465e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*0 2*0 2*4 2*0 1*8 1*0 1*24]             ; 16 steps
        b: 0x8200 [2*4 2*8 1*16 1*48 1*48]                  ; 4 words, 16 B
        c: 0x400 [2*4 2*8 2*0 2*16 1*0 1*64]                ; 16 steps
        d: 0x1800 [4*0 2*0 2*0] ping(1, 4)                  ; 16 steps
        loops: loops=2,2,2,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0x3 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*12 3*96 2*36 3*4]                       ; 54 steps
        b: 0x8200 [2*4 2*24 3*8]                            ; 12 words, 48 B
        c: 0x400 [9*4 2*0 3*36]                             ; 54 steps
        d: 0x1800 [9*0 2*0 3*0] ping(1, 4)                  ; 54 steps
        wait: ring_read_b>=-30000+1*i@3
        loops: loops=3,3,2,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=8 lanes=8 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*576 3*3456 2*6912 144*4]                ; 2592 steps
        b: 0x8200 [1*4 2*1152 144*4]                        ; 288 words, 1152 B
        c: 0x400 [9*4 2*0 4*36 36*0]                        ; 2592 steps
        d: 0x1800 [9*0 2*0 144*0] ping(1, 4)                ; 2592 steps
        wait: ring_read_a>=-30000+1*i@3
        loops: loops=3,3,2,144
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*512 3*3072 2*6144 128*4]                ; 2304 steps
        b: 0x8200 [1*4 2*1024 128*4]                        ; 256 words, 1024 B
        c: 0x400 [9*4 2*0 4*36 32*0]                        ; 2304 steps
        d: 0x1800 [9*0 2*0 128*0] ping(1, 4)                ; 2304 steps
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,3,2,128
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*24 4*192 4*24 6*4]                      ; 384 steps
        b: 0x8200 [1*4 4*24 6*4]                            ; 24 words, 96 B
        c: 0x400 [16*4 4*0 3*64 2*0]                        ; 384 steps
        d: 0x1800 [16*0 4*0 6*0] ping(1, 4)                 ; 384 steps
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=4,4,4,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*0 1*4 1*4 2*4]                          ; 2 steps
        b: 0x8200 [1*4 1*4 2*4]                             ; 2 words, 8 B
        c: 0x400 [1*0 1*4 1*0 2*0]                          ; 2 steps
        d: 0x1800 [1*0 1*0 1*0 2*0] ping(1, 4)              ; 2 steps
        wait: narrow_to_wide>=0@1
        loops: loops=1,1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*2 6*4 4*24 2*120]                       ; 96 steps
        b: 0x8200 [6*4 4*24 2*168]                          ; 48 words, 192 B
        c: 0x400 [2*4 6*0 4*0 2*0]                          ; 96 steps
        d: 0x1800 [2*0 6*0 4*0 2*0] ping(1, 4)              ; 96 steps
        loops: loops=2,6,4,2
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=2.2737713e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 1*4 1*4 2*4]                          ; 2 steps
        b: 0x8200 [1*4 1*4 2*4]                             ; 2 words, 8 B
        c: 0x400 [1*0 1*4 1*4 2*4] ping(4, 8)               ; 2 steps
        d: 0x1800 [1*0 1*0 1*0 2*0] ping(1, 4)              ; 2 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*24 3*4 2*24 1*4]                    ; 54 steps
        b: 0x8200 [5*4 3*12 2*48 1*20] part(3, 3)           ; 18 words, 72 B
        c: 0x400 [9*4 6*0] ping(2, 36)                      ; 54 steps
        d: 0x1800 [9*0 6*0] ping(1, 4)                      ; 54 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,3,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=12 lanes=20 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 5*228 28*8 14*912 1*4]                ; 5880 steps
        b: 0x8200 [8*4 2*960 28*32 14*1920 1*32]            ; 6272 words, 25088 B
        c: 0x400 [15*4 392*0 1*60]                          ; 5880 steps
        d: 0x1800 [15*0 392*0] ping(1, 4)                   ; 5880 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=3,5,28,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0015029382 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 5*228 28*8 14*912 1*4]                ; 5880 steps
        b: 0x8200 [8*4 2*960 28*32 14*1920 1*32]            ; 6272 words, 25088 B
        c: 0x400 [15*4 392*0 1*60]                          ; 5880 steps
        d: 0x1800 [15*0 392*0] ping(1, 4)                   ; 5880 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,28,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 10*24 2*12 2*96 1*12]                 ; 120 steps
        b: 0x8200 [4*4 4*32 2*16 2*128 1*16]                ; 64 words, 256 B
        c: 0x400 [30*4 4*0 1*120]                           ; 120 steps
        d: 0x1800 [30*0 4*0] ping(1, 4)                     ; 120 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,10,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 4*240 2*960 15*16]                    ; 480 steps
        b: 0x8200 [4*4 4*240 2*960 15*16]                   ; 480 words, 1920 B
        c: 0x400 [4*4 8*0 5*16 3*0]                         ; 480 steps
        d: 0x1800 [4*0 8*0 15*0] ping(1, 4)                 ; 480 steps
        wait: ring_read_b>=-30000+1*i@3
        loops: loops=4,4,2,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=16 lanes=16 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*128 15*1920 7*256 32*4]                 ; 10080 steps
        b: 0x8200 [1*4 7*896 7*128 32*4]                    ; 1568 words, 6272 B
        c: 0x400 [45*4 7*0 4*180 8*0]                       ; 10080 steps
        d: 0x1800 [45*0 7*0 32*0] ping(1, 4)                ; 10080 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,15,7,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=28 lanes=28 scale=0.0008677218 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*24 6*216 5*24 6*4]                      ; 900 steps
        b: 0x8200 [1*4 2*192 5*24 6*4]                      ; 60 words, 240 B
        c: 0x400 [30*4 5*0 3*120 2*0]                       ; 900 steps
        d: 0x1800 [30*0 5*0 6*0] ping(1, 4)                 ; 900 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=5,6,5,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*24 5*4 4*0 2*24]                        ; 80 steps
        b: 0x8200 [2*4 5*8 4*48 2*192]                      ; 80 words, 320 B
        c: 0x400 [2*4 5*0 4*8 2*0]                          ; 80 steps
        d: 0x1800 [2*0 5*0 4*0 2*0] ping(1, 4)              ; 80 steps
        loops: loops=2,5,4,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.0578032 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 8*160 3*1280 40*4]                    ; 960 steps
        b: 0x8200 [2*4 8*316 3*2528 40*8] part(3, 1)        ; 1896 words, 7584 B
        c: 0x400 [1*4 24*0 8*4 5*0]                         ; 960 steps
        d: 0x1800 [1*0 24*0 40*0] ping(1, 4)                ; 960 steps
        wait: ring_read_b>=-30000+1*i@3
        loops: loops=1,8,3,40
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=4 lanes=8 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 2*164 5*820 14*12]                    ; 420 steps
        b: 0x8200 [3*4 2*164 5*656 14*12] part(3, 2)        ; 410 words, 1640 B
        c: 0x400 [3*4 10*0 7*12 2*0]                        ; 420 steps
        d: 0x1800 [3*0 10*0 14*0] ping(1, 4)                ; 420 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,2,5,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=8 lanes=12 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [196*24 6*4 1*0 3*0]                       ; 3528 steps
        b: 0x8200 [16*4 14*144 14*2304 3*64] part(3, 4)     ; 7056 words, 28224 B
        c: 0x400 [196*0 1*0 1*0 18*0] ping(2, 4)            ; 3528 steps
        d: 0x1800 [196*4 1*0 1*0 18*0]                      ; 3528 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=1,196,6,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=16 lanes=64 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [9*4 3*64 3*12 3*64 1*4]                   ; 243 steps
        b: 0x8200 [5*4 3*12 3*36 3*168 1*20] part(4, 3)     ; 81 words, 324 B
        c: 0x400 [27*4 9*0] ping(2, 108)                    ; 243 steps
        d: 0x1800 [27*0 9*0] ping(1, 4)                     ; 243 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=9,3,3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=36 lanes=60 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*4 6*72 4*16 4*288 1*4]                  ; 576 steps
        b: 0x8200 [1*4 4*4 4*64 4*16 4*256 1*4]             ; 256 words, 1024 B
        c: 0x400 [36*4 16*0 1*144]                          ; 576 steps
        d: 0x1800 [36*0 16*0] ping(1, 4)                    ; 576 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=6,6,4,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0009701424 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*12 3*132 8*12 3*396 3*4 3*0]            ; 1944 steps
        b: 0x8200 [16*4 8*160 3*1920 3*64] part(3, 8)       ; 960 words, 3840 B
        c: 0x400 [9*4 24*0 1*0 9*0] ping(2, 36)             ; 1944 steps
        d: 0x1800 [9*0 24*4 1*0 9*0]                        ; 1944 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,24,3,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=32 lanes=64 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*2 2*120 5*8 1*40 2*40]                  ; 80 steps
        b: 0x8200 [5*4 1*20 2*20]                           ; 10 words, 40 B
        c: 0x400 [4*2 2*8 5*0 1*16 2*16]                    ; 80 steps
        d: 0x1800 [8*0 5*0 1*0 2*0] ping(1, 4)              ; 80 steps
        loops: loops=4,2,5,1,2
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=6.280465e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*2 2*4632 2*4 1*8 2*56]                  ; 16 steps
        b: 0x8200 [2*4 1*8 2*16]                            ; 4 words, 16 B
        c: 0x400 [2*4 2*8 2*0 1*0 2*0]                      ; 16 steps
        d: 0x1800 [4*0 2*0 1*0 2*0] ping(1, 4)              ; 16 steps
        loops: loops=2,2,2,1,2
        operands: accumulate c16
        zero_points: c_zero_point=32768 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [2*4 2*68 4*680 3*68 9*8]                  ; 432 steps
        b: 0x8200 [2*4 3*68 9*8] part(2, 1)                 ; 51 words, 204 B
        c: 0x400 [16*4 3*0 3*64 3*0]                        ; 432 steps
        d: 0x1800 [16*0 3*0 9*0] ping(1, 4)                 ; 432 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=2,2,4,3,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=4 lanes=8 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*4 3*72 2*504 3*144 6*12]                ; 324 steps
        b: 0x8200 [12*4 3*276 6*48] part(2, 9)              ; 207 words, 828 B
        c: 0x400 [18*4 3*0 3*72 2*0]                        ; 324 steps
        d: 0x1800 [18*0 3*0 6*0] ping(1, 4)                 ; 324 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,2,3,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=36 lanes=48 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 4*16 4*64 2*8 5*128 1*8]              ; 320 steps
        b: 0x8200 [3*4 2*24 2*12 5*48 1*12]                 ; 60 words, 240 B
        c: 0x400 [32*4 10*0 1*128]                          ; 320 steps
        d: 0x1800 [32*0 10*0] ping(1, 4)                    ; 320 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,4,2,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=24 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*80 3*320 2*80 2*320 20*4]               ; 720 steps
        b: 0x8200 [1*4 2*80 2*160 20*4]                     ; 80 words, 320 B
        c: 0x400 [9*4 4*0 4*36 5*0]                         ; 720 steps
        d: 0x1800 [9*0 4*0 20*0] ping(1, 4)                 ; 720 steps
        wait: ring_read_a>=-30000+1*i@4
        loops: loops=3,3,2,2,20
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*128 3*896 2*256 2*1792 32*4]            ; 1152 steps
        b: 0x8200 [1*4 2*128 2*384 32*4]                    ; 128 words, 512 B
        c: 0x400 [9*4 4*0 4*36 8*0]                         ; 1152 steps
        d: 0x1800 [9*0 4*0 32*0] ping(1, 4)                 ; 1152 steps
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,2,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*24 4*192 4*24 2*192 6*4]                ; 768 steps
        b: 0x8200 [1*4 4*24 2*240 6*4]                      ; 48 words, 192 B
        c: 0x400 [16*4 8*0 3*64 2*0]                        ; 768 steps
        d: 0x1800 [16*0 8*0 6*0] ping(1, 4)                 ; 768 steps
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=4,4,4,2,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5
        a: 0x100 [1*0 1*0 1*0 1*0 2*8]                      ; 2 steps
        b: 0x8200 [1*0 1*0 1*0 2*4]                         ; 2 words, 8 B
        c: 0x400 [1*0 1*0 1*0 2*0]                          ; 2 steps
        d: 0x1800 [1*0 1*0 1*0 2*0] ping(1, 4)              ; 2 steps
        loops: loops=1,1,1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5
        a: 0x101 [1*0 1*0 1*0 1*0 2*1]                      ; 2 steps
        b: 0x8200 [1*0 1*0 1*0 2*4]                         ; 2 words, 8 B
        c: 0x400 [1*0 1*0 1*0 2*0]                          ; 2 steps
        d: 0x1800 [1*0 1*0 1*0 2*0] ping(1, 4)              ; 2 steps
        loops: loops=1,1,1,1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x1 lanes_last=4 lanes=4 scale=0.011641709 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*164 8*656 3*1312 21*8]              ; 3024 steps
        b: 0x8200 [2*4 2*328 3*656 21*8] part(3, 1)         ; 246 words, 984 B
        c: 0x400 [48*4 3*0 3*192 7*0]                       ; 3024 steps
        d: 0x1800 [48*0 3*0 21*0] ping(1, 4)                ; 3024 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=2,3,8,3,21
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 4*164 8*2460 3*820 21*8]              ; 4032 steps
        b: 0x8200 [2*4 2*2952 3*984 21*8] part(3, 1)        ; 246 words, 984 B
        c: 0x400 [64*4 3*0 3*256 7*0]                       ; 4032 steps
        d: 0x1800 [64*0 3*0 21*0] ping(1, 4)                ; 4032 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=2,4,8,3,21
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=16 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 6*8 9*80 3*16 2*320 1*8]              ; 648 steps
        b: 0x8200 [2*4 2*8 4*48 3*16 2*192 1*8]             ; 96 words, 384 B
        c: 0x400 [108*4 6*0 1*432]                          ; 648 steps
        d: 0x1800 [108*0 6*0] ping(1, 4)                    ; 648 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,6,9,3,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [14*4 3*56 5*504 4*112 3*1512 1*56]        ; 2520 steps
        b: 0x8200 [2*4 2*8 3*88 4*16 3*264 1*8]             ; 144 words, 576 B
        c: 0x400 [210*4 12*0 1*840]                         ; 2520 steps
        d: 0x1800 [210*0 12*0] ping(1, 4)                   ; 2520 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=14,3,5,4,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*128 4*768 4*128 2*1536 32*4]            ; 3072 steps
        b: 0x8200 [1*4 2*512 4*128 2*1024 32*4]             ; 512 words, 2048 B
        c: 0x400 [12*4 8*0 4*48 8*0]                        ; 3072 steps
        d: 0x1800 [12*0 8*0 32*0] ping(1, 4)                ; 3072 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=3,4,4,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=0.001680336 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*32 5*288 4*64 2*1152 8*4]               ; 960 steps
        b: 0x8200 [1*4 2*128 4*32 2*256 8*4]                ; 128 words, 512 B
        c: 0x400 [15*4 8*0 4*60 2*0]                        ; 960 steps
        d: 0x1800 [15*0 8*0 8*0] ping(1, 4)                 ; 960 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,4,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=0.0015029382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*64 5*576 4*128 3*2304 16*4]             ; 2880 steps
        b: 0x8200 [1*4 2*256 4*64 3*512 16*4]               ; 384 words, 1536 B
        c: 0x400 [15*4 12*0 4*60 4*0]                       ; 2880 steps
        d: 0x1800 [15*0 12*0 16*0] ping(1, 4)               ; 2880 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,4,3,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*32 4*160 2*32 3*320 8*4]                ; 576 steps
        b: 0x8200 [1*4 2*96 2*32 3*192 8*4]                 ; 96 words, 384 B
        c: 0x400 [12*4 6*0 4*48 2*0]                        ; 576 steps
        d: 0x1800 [12*0 6*0 8*0] ping(1, 4)                 ; 576 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,4,2,3,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*144 9*2160 7*288 2*12960 36*4]          ; 13608 steps
        b: 0x8200 [1*4 4*1008 7*144 2*3024 36*4]            ; 2016 words, 8064 B
        c: 0x400 [27*4 14*0 1*0 36*0] ping(2, 108)          ; 13608 steps
        d: 0x1800 [27*0 14*0 36*0] ping(1, 4)               ; 13608 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=3,9,7,2,36
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=16 lanes=16 scale=0.001120224 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [4*128 6*1280 4*256 2*5120 32*4]           ; 6144 steps
        b: 0x8200 [1*4 2*128 4*1024 4*256 2*4096 32*4]      ; 2048 words, 8192 B
        c: 0x400 [24*4 8*0 4*96 8*0]                        ; 6144 steps
        d: 0x1800 [24*0 8*0 32*0] ping(1, 4)                ; 6144 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=4,6,4,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=32 lanes=32 scale=0.001188177 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [4*32 6*320 4*64 2*1280 8*4]               ; 1536 steps
        b: 0x8200 [1*4 2*32 4*256 4*64 2*1024 8*4]          ; 512 words, 2048 B
        c: 0x400 [24*4 8*0 4*96 2*0]                        ; 1536 steps
        d: 0x1800 [24*0 8*0 8*0] ping(1, 4)                 ; 1536 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=4,6,4,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=32 lanes=32 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*32 5*320 2*128 4*960 8*4]               ; 1920 steps
        b: 0x8200 [1*4 4*32 3*256 2*128 4*768 8*4]          ; 768 words, 3072 B
        c: 0x400 [30*4 8*0 4*120 2*0]                       ; 1920 steps
        d: 0x1800 [30*0 8*0 8*0] ping(1, 4)                 ; 1920 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,5,2,4,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*32 6*960 7*128 7*3840 8*4]              ; 14112 steps
        b: 0x8200 [1*4 4*32 4*896 7*128 7*3584 8*4]         ; 6272 words, 25088 B
        c: 0x400 [36*4 49*0 1*0 8*0] ping(2, 144)           ; 14112 steps
        d: 0x1800 [36*0 49*0 8*0] ping(1, 4)                ; 14112 steps
        wait: ring_read_b>=-30000+1*i@4
        loops: loops=6,6,7,7,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0009701424 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*32 6*960 7*128 7*3840 8*4]              ; 14112 steps
        b: 0x8200 [1*4 4*32 4*896 7*128 7*3584 8*4]         ; 6272 words, 25088 B
        c: 0x400 [36*4 49*0 1*0 8*0] ping(2, 144)           ; 14112 steps
        d: 0x1800 [36*0 49*0 8*0] ping(1, 4)                ; 14112 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,6,7,7,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*16 5*272 4*64 4*1088 4*4]               ; 1600 steps
        b: 0x8200 [1*4 2*16 2*128 4*32 4*256 4*4]           ; 256 words, 1024 B
        c: 0x400 [25*4 16*0 1*0 4*0] ping(2, 100)           ; 1600 steps
        d: 0x1800 [25*0 16*0 4*0] ping(1, 4)                ; 1600 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,5,4,4,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=16 lanes=16 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [7*32 10*416 3*96 2*1248 8*4]              ; 3360 steps
        b: 0x8200 [1*4 3*32 4*416 3*96 2*1248 8*4]          ; 576 words, 2304 B
        c: 0x400 [70*4 6*0 1*0 8*0] ping(2, 280)            ; 3360 steps
        d: 0x1800 [70*0 6*0 8*0] ping(1, 4)                 ; 3360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=7,10,3,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*52 5*624 1*4 1*52 1*208 13*4]           ; 260 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [20*4 1*0 13*0] ping(2, 80)                ; 260 steps
        d: 0x1800 [260*0] ping(1, 4)                        ; 260 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,5,1,1,1,13
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=0.00036099408 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*36 6*288 1*4 1*72 1*576 9*4]            ; 324 steps
        b: 0x8200 [1*4 1*4 1*8 1*64]                        ; 1 word, 4 B
        c: 0x400 [36*4 1*0 9*0] ping(2, 144)                ; 324 steps
        d: 0x1800 [324*0] ping(1, 4)                        ; 324 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=6,6,1,1,1,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*48 3*256 1*4 1*16 1*128 4*4]            ; 36 steps
        b: 0x8200 [3*4 1*12 1*24 1*64]                      ; 3 words, 12 B
        c: 0x400 [9*4 1*0 4*36]                             ; 36 steps
        d: 0x1800 [36*0] ping(1, 4)                         ; 36 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*16 3*48 1*4 1*48 1*48 4*4]              ; 36 steps
        b: 0x8200 [15*4 1*60 1*60 1*64]                     ; 15 words, 60 B
        c: 0x400 [9*4 1*0 4*36]                             ; 36 steps
        d: 0x1800 [36*0] ping(1, 4)                         ; 36 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=60 lanes=60 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [7*8 3*56 1*4 1*16 1*112 2*4]              ; 42 steps
        b: 0x8200 [3*4 1*12 1*12 1*64]                      ; 3 words, 12 B
        c: 0x400 [21*4 1*0 2*0] ping(2, 84)                 ; 42 steps
        d: 0x1800 [42*0] ping(1, 4)                         ; 42 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=7,3,1,1,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*56 7*112 1*4 1*56 1*112 14*4]           ; 98 steps
        b: 0x8200 [2*4 1*8 1*24 1*64]                       ; 2 words, 8 B
        c: 0x400 [7*4 1*0 7*28 2*0]                         ; 98 steps
        d: 0x1800 [98*0] ping(1, 4)                         ; 98 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,7,1,1,1,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.0005879951 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [7*144 2*1008 1*4 1*144 1*1008 36*4]       ; 504 steps
        b: 0x8200 [16*4 1*64 1*64 1*64]                     ; 16 words, 64 B
        c: 0x400 [14*4 1*0 3*56 12*0]                       ; 504 steps
        d: 0x1800 [504*0] ping(1, 4)                        ; 504 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=7,2,1,1,1,36
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*32 2*256 1*4 1*96 1*768 8*4]            ; 80 steps
        b: 0x8200 [2*4 1*8 1*16 1*64]                       ; 2 words, 8 B
        c: 0x400 [10*4 1*0 4*40 2*0]                        ; 80 steps
        d: 0x1800 [80*0] ping(1, 4)                         ; 80 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,1,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*104 1*364 1*4 6*52 1*364 13*4]          ; 78 steps
        b: 0x8200 [13*4 6*52 1*1144 1*64]                   ; 78 words, 312 B
        c: 0x400 [1*4 6*0 13*4]                             ; 78 steps
        d: 0x1800 [1*0 6*4 13*0]                            ; 78 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,6,1,13
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=52 lanes=52 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*72 1*504 1*4 3*144 1*504 18*4]          ; 54 steps
        b: 0x8200 [12*4 3*48 1*144 1*64]                    ; 36 words, 144 B
        c: 0x400 [1*4 3*0 18*4]                             ; 54 steps
        d: 0x1800 [1*0 3*4 18*0]                            ; 54 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,3,1,18
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=48 lanes=48 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*56 1*280 1*4 2*112 1*840 14*4]          ; 28 steps
        b: 0x8200 [2*4 2*8 1*48 1*64]                       ; 4 words, 16 B
        c: 0x400 [1*4 2*0 14*4]                             ; 28 steps
        d: 0x1800 [1*0 2*4 14*0]                            ; 28 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,2,1,14
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*76 1*912 1*4 3*76 1*912 19*4]           ; 57 steps
        b: 0x8200 [4*4 3*16 1*48 1*64]                      ; 12 words, 48 B
        c: 0x400 [1*4 3*0 19*4]                             ; 57 steps
        d: 0x1800 [1*0 3*4 19*0]                            ; 57 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,3,1,19
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=16 lanes=16 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*56 7*112 1*4 2*56 1*112 14*4]           ; 196 steps
        b: 0x8200 [2*4 2*8 1*24 1*64]                       ; 4 words, 16 B
        c: 0x400 [7*4 2*0 7*28 2*0]                         ; 196 steps
        d: 0x1800 [7*0 2*4 14*0]                            ; 196 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,7,1,2,1,14
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.0022000764 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 7*960 1*4 3*80 1*320 20*4]          ; 420 steps
        b: 0x8200 [7*4 3*28 1*112 1*64]                     ; 21 words, 84 B
        c: 0x400 [7*4 3*0 5*28 4*0]                         ; 420 steps
        d: 0x1800 [7*0 3*4 20*0]                            ; 420 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,7,1,3,1,20
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=28 lanes=28 scale=0.0022000764 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*32 2*256 1*4 2*96 1*768 8*4]            ; 160 steps
        b: 0x8200 [2*4 2*8 1*16 1*64]                       ; 4 words, 16 B
        c: 0x400 [10*4 2*0 4*40 2*0]                        ; 160 steps
        d: 0x1800 [10*0 2*4 8*0]                            ; 160 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,2,1,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*104 1*364 1*4 6*52 2*364 13*4]          ; 156 steps
        b: 0x8200 [13*4 6*52 2*1144 1*64]                   ; 156 words, 624 B
        c: 0x400 [1*4 12*0 13*4]                            ; 156 steps
        d: 0x1800 [1*0 12*4 13*0]                           ; 156 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,6,2,13
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=52 lanes=52 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*32 1*128 1*4 4*32 4*128 8*4]            ; 128 steps
        b: 0x8200 [16*4 4*64 4*384 1*64]                    ; 256 words, 1024 B
        c: 0x400 [1*4 16*0 8*4]                             ; 128 steps
        d: 0x1800 [1*0 16*4 8*0]                            ; 128 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,4,4,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*132 1*176 1*4 1*44 4*88 11*4]           ; 44 steps
        b: 0x8200 [15*4 1*60 4*120 1*64]                    ; 60 words, 240 B
        c: 0x400 [1*4 4*0 11*4]                             ; 44 steps
        d: 0x1800 [1*0 4*4 11*0]                            ; 44 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,4,11
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=60 lanes=60 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*12 3*48 1*4 1*12 4*48 3*4]              ; 108 steps
        b: 0x8200 [2*4 1*8 4*32 1*64]                       ; 8 words, 32 B
        c: 0x400 [9*4 4*0 3*36]                             ; 108 steps
        d: 0x1800 [9*0 4*4 3*0]                             ; 108 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,4,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*96 1*1344 1*4 14*96 14*1344 24*4]       ; 4704 steps
        b: 0x8200 [6*4 14*24 14*336 1*64]                   ; 1176 words, 4704 B
        c: 0x400 [1*4 196*0 24*0] ping(2, 4)                ; 4704 steps
        d: 0x1800 [1*0 196*4 24*0]                          ; 4704 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,14,14,24
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=24 lanes=24 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*8 2*104 1*4 7*8 6*104 2*4]              ; 336 steps
        b: 0x8200 [5*4 7*40 6*300 1*64]                     ; 210 words, 840 B
        c: 0x400 [4*4 42*0 2*0] ping(2, 16)                 ; 336 steps
        d: 0x1800 [4*0 42*4 2*0]                            ; 336 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,2,1,7,6,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*192 1*768 1*4 3*192 3*768 48*4]         ; 432 steps
        b: 0x8200 [16*4 3*64 3*256 1*64]                    ; 144 words, 576 B
        c: 0x400 [1*4 9*0 12*4 4*0]                         ; 432 steps
        d: 0x1800 [1*0 9*4 48*0]                            ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,3,3,48
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*144 1*1008 1*4 7*144 7*1008 36*4]       ; 1764 steps
        b: 0x8200 [8*4 7*32 7*224 1*64]                     ; 392 words, 1568 B
        c: 0x400 [1*4 49*0 6*4 6*0]                         ; 1764 steps
        d: 0x1800 [1*0 49*4 36*0]                           ; 1764 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,7,7,36
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=32 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*192 1*768 1*4 3*192 3*768 48*4]         ; 432 steps
        b: 0x8200 [16*4 3*64 3*256 1*64]                    ; 144 words, 576 B
        c: 0x400 [1*4 9*0 12*4 4*0]                         ; 432 steps
        d: 0x1800 [1*0 9*4 48*0]                            ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,3,3,48
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*192 1*768 1*4 3*192 3*768 48*4]         ; 432 steps
        b: 0x8200 [16*4 3*64 3*256 1*64]                    ; 144 words, 576 B
        c: 0x400 [1*4 9*0 12*4 4*0]                         ; 432 steps
        d: 0x1800 [1*0 9*4 48*0]                            ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,3,3,48
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*256 1*4 1*128 7*256 32*4]         ; 224 steps
        b: 0x8200 [3*4 1*12 7*84 1*64]                      ; 21 words, 84 B
        c: 0x400 [1*4 7*0 16*4 2*0]                         ; 224 steps
        d: 0x1800 [1*0 7*4 32*0]                            ; 224 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,7,32
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*48 4*432 1*4 6*48 2*432 12*4]           ; 1152 steps
        b: 0x8200 [1*4 6*4 2*28 1*64]                       ; 12 words, 48 B
        c: 0x400 [8*4 12*0 3*32 4*0]                        ; 1152 steps
        d: 0x1800 [8*0 12*4 12*0]                           ; 1152 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,4,1,6,2,12
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*32 2*256 1*4 1*96 2*768 8*4]            ; 160 steps
        b: 0x8200 [2*4 1*8 2*16 1*64]                       ; 4 words, 16 B
        c: 0x400 [10*4 2*0 4*40 2*0]                        ; 160 steps
        d: 0x1800 [10*0 2*4 8*0]                            ; 160 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,1,2,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [4*4 1*0 1*0 1*0 1*0 2*4]                  ; 8 steps
        b: 0x8200 [1*0 1*0 2*4]                             ; 2 words, 8 B
        c: 0x400 [4*4 1*0 1*0 1*0 1*0 2*0] ping(7, 16)      ; 8 steps
        d: 0x1800 [4*0 1*0 1*0 1*0 1*0 2*0] ping(4, 4)      ; 8 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=4,1,1,1,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [1*0 1*0 1*0 1*0 1*0 2*48]                 ; 2 steps
        b: 0x8200 [1*0 1*0 2*24]                            ; 2 words, 8 B
        c: 0x400 [1*0 1*0 1*0 1*0 1*0 2*0] ping(7, 4)       ; 2 steps
        d: 0x1800 [1*0 1*0 1*0 1*0 1*0 2*0] ping(4, 4)      ; 2 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=1,1,1,1,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*64 3*320 2*128 2*640 8*8]           ; 576 steps
        b: 0x8200 [2*4 2*64 2*128 8*8]                      ; 64 words, 256 B
        c: 0x400 [18*4 4*0 4*72 2*0]                        ; 576 steps
        d: 0x1800 [18*0 4*0 8*0] ping(1, 4)                 ; 576 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,3,2,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*128 3*640 2*256 3*1280 8*16]        ; 1728 steps
        b: 0x8200 [4*4 2*128 3*256 8*16]                    ; 192 words, 768 B
        c: 0x400 [36*4 6*0 4*144 2*0]                       ; 1728 steps
        d: 0x1800 [36*0 6*0 8*0] ping(1, 4)                 ; 1728 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,3,2,3,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 2*24 3*8 1*0 1*504 7*240]             ; 84 steps
        b: 0x8200 [3*4 1*12 1*12 7*60]                      ; 21 words, 84 B
        c: 0x400 [2*2 2*4 3*0 1*8 1*0 7*0]                  ; 84 steps
        d: 0x1800 [4*0 3*0 1*0 1*0 7*0] ping(1, 4)          ; 84 steps
        loops: loops=2,2,3,1,1,7
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=6 reduction=0x3 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*16 2*80 4*4 1*0 1*96 2*0 1*80]          ; 32 steps
        b: 0x8200 [4*4 1*16 1*16 2*48 1*96]                 ; 8 words, 32 B
        c: 0x400 [2*4 2*8 4*0 1*16 1*0 2*80]                ; 32 steps
        d: 0x1800 [4*0 4*0 1*0 1*0 2*0] ping(1, 4)          ; 32 steps
        loops: loops=2,2,4,1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0x3 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*12 1*36 3*4 2*12 1*36 2*0]              ; 12 steps
        b: 0x8200 [16*4 2*104 1*416 2*64] part(3, 10)       ; 52 words, 208 B
        c: 0x400 [3*4 2*0 1*0 2*0] ping(2, 12)              ; 12 steps
        d: 0x1800 [3*0 2*0 2*0] ping(1, 4)                  ; 12 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,3,2,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=40 lanes=64 scale=0.003360672 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*256 5*2304 3*512 2*9216 32*8]       ; 5760 steps
        b: 0x8200 [2*4 2*1024 3*256 2*2048 32*8]            ; 768 words, 3072 B
        c: 0x400 [30*4 6*0 4*120 8*0]                       ; 5760 steps
        d: 0x1800 [30*0 6*0 32*0] ping(1, 4)                ; 5760 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,5,3,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=0.0010627378 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*128 5*768 4*128 2*2304 16*8]        ; 3840 steps
        b: 0x8200 [2*4 3*512 4*128 2*1536 16*8]             ; 768 words, 3072 B
        c: 0x400 [30*4 8*0 4*120 4*0]                       ; 3840 steps
        d: 0x1800 [30*0 8*0 16*0] ping(1, 4)                ; 3840 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,5,4,2,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=24 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 6*104 3*1248 3*312 2*3744 9*12]       ; 2916 steps
        b: 0x8200 [3*4 4*104 3*312 2*1248 9*12] part(4, 2)  ; 624 words, 2496 B
        c: 0x400 [54*4 6*0 3*216 3*0]                       ; 2916 steps
        d: 0x1800 [54*0 6*0 9*0] ping(1, 4)                 ; 2916 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,6,3,3,2,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=48 scale=0.00079211796 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*164 8*656 2*164 3*1312 21*8]        ; 6048 steps
        b: 0x8200 [2*4 2*328 2*164 3*656 21*8] part(4, 1)   ; 492 words, 1968 B
        c: 0x400 [48*4 6*0 3*192 7*0]                       ; 6048 steps
        d: 0x1800 [48*0 6*0 21*0] ping(1, 4)                ; 6048 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,8,2,3,21
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 4*164 8*2460 2*164 3*820 21*8]        ; 8064 steps
        b: 0x8200 [2*4 2*2952 2*164 3*984 21*8] part(4, 1)  ; 492 words, 1968 B
        c: 0x400 [64*4 6*0 3*256 7*0]                       ; 8064 steps
        d: 0x1800 [64*0 6*0 21*0] ping(1, 4)                ; 8064 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,8,2,3,21
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=16 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*192 6*1920 4*384 2*7680 24*8]       ; 9216 steps
        b: 0x8200 [2*4 2*192 4*1536 4*384 2*6144 24*8]      ; 3072 words, 12288 B
        c: 0x400 [48*4 8*0 3*192 8*0]                       ; 9216 steps
        d: 0x1800 [48*0 8*0 24*0] ping(1, 4)                ; 9216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,6,4,2,24
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=0.000840168 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*192 6*1728 4*384 2*5184 24*8]       ; 9216 steps
        b: 0x8200 [2*4 2*192 4*1536 4*384 2*4608 24*8]      ; 3072 words, 12288 B
        c: 0x400 [48*4 8*0 3*192 8*0]                       ; 9216 steps
        d: 0x1800 [48*0 8*0 24*0] ping(1, 4)                ; 9216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,6,4,2,24
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*384 5*3840 4*768 2*11520 48*8]      ; 15360 steps
        b: 0x8200 [2*4 2*384 3*3072 4*768 2*9216 48*8]      ; 4608 words, 18432 B
        c: 0x400 [40*4 8*0 3*160 16*0]                      ; 15360 steps
        d: 0x1800 [40*0 8*0 48*0] ping(1, 4)                ; 15360 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,5,4,2,48
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@6 parameters=@2
        a: 0x100 [5*16 10*208 2*8 2*32 2*104 2*4]           ; 800 steps
        b: 0x8200 [1*4 2*16 4*128 2*8 2*32 2*64 2*4]        ; 128 words, 512 B
        c: 0x400 [50*4 8*0 1*0 2*0] ping(2, 200)            ; 800 steps
        d: 0x1800 [50*0 8*0 2*0] ping(1, 4)                 ; 800 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=5,10,2,2,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=32 lanes=32 scale=0.0008231932 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 1*320 1*4 1*160 1*320 40*4 15*0]    ; 600 steps
        b: 0x8200 [16*4 1*960 1*3840 15*64]                 ; 240 words, 960 B
        c: 0x400 [1*4 1*0 40*4 1*0 15*0]                    ; 600 steps
        d: 0x1800 [40*0 1*0 15*0] ping(1, 4)                ; 600 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,1,1,40,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.00092035794 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*128 1*4 1*128 1*128 32*4 4*0]     ; 128 steps
        b: 0x8200 [16*4 1*256 1*768 4*64]                   ; 64 words, 256 B
        c: 0x400 [1*4 1*0 32*4 1*0 4*0]                     ; 128 steps
        d: 0x1800 [32*0 1*0 4*0] ping(1, 4)                 ; 128 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,1,32,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0010289914 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*256 1*256 1*4 1*256 1*256 64*4 8*0]     ; 512 steps
        b: 0x8200 [16*4 1*512 1*1536 8*64]                  ; 128 words, 512 B
        c: 0x400 [1*4 1*0 32*4 2*0 8*0]                     ; 512 steps
        d: 0x1800 [64*0 1*0 8*0] ping(1, 4)                 ; 512 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,1,64,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*80 1*160 1*4 2*80 2*160 20*4 5*0]       ; 400 steps
        b: 0x8200 [16*4 2*320 2*640 5*64]                   ; 320 words, 1280 B
        c: 0x400 [1*4 4*0 20*4 1*0 5*0]                     ; 400 steps
        d: 0x1800 [1*0 4*4 20*0 5*0]                        ; 400 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,2,2,20,5
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*64 1*128 1*4 2*64 2*128 16*4 2*0]       ; 128 steps
        b: 0x8200 [16*4 2*128 2*512 2*64]                   ; 128 words, 512 B
        c: 0x400 [1*4 4*0 16*4 1*0 2*0]                     ; 128 steps
        d: 0x1800 [1*0 4*4 16*0 2*0]                        ; 128 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,2,2,16,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*256 1*4 2*128 3*256 32*4 4*0]     ; 768 steps
        b: 0x8200 [16*4 2*256 3*1024 4*64]                  ; 384 words, 1536 B
        c: 0x400 [1*4 6*0 32*4 1*0 4*0]                     ; 768 steps
        d: 0x1800 [1*0 6*4 32*0 4*0]                        ; 768 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,2,3,32,4
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*24 1*336 1*4 14*24 14*336 6*4 3*0]      ; 3528 steps
        b: 0x8200 [16*4 14*144 14*2304 3*64] part(3, 4)     ; 7056 words, 28224 B
        c: 0x400 [1*4 196*0 6*0 3*0] ping(2, 4)             ; 3528 steps
        d: 0x1800 [1*0 196*4 6*0 3*0]                       ; 3528 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,14,14,6,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=16 lanes=64 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*48 1*2016 1*4 40*48 3*2016 12*4 2*0]    ; 2880 steps
        b: 0x8200 [16*4 40*96 3*4128 2*64] part(3, 8)       ; 2880 words, 11520 B
        c: 0x400 [1*4 120*0 12*0 2*0] ping(2, 4)            ; 2880 steps
        d: 0x1800 [1*0 120*4 12*0 2*0]                      ; 2880 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,40,3,12,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*1152 1*4 1*576 1*1152 144*4 3*0]  ; 432 steps
        b: 0x8200 [16*4 1*160 1*320 3*64] part(3, 8)        ; 40 words, 160 B
        c: 0x400 [1*4 1*0 24*4 6*0 3*0]                     ; 432 steps
        d: 0x1800 [144*0 1*0 3*0] ping(1, 4)                ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,1,1,144,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=0.0004850712 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*1152 1*4 1*576 1*1152 144*4 3*0]  ; 432 steps
        b: 0x8200 [16*4 1*160 1*320 3*64] part(3, 8)        ; 40 words, 160 B
        c: 0x400 [1*4 1*0 24*4 6*0 3*0]                     ; 432 steps
        d: 0x1800 [144*0 1*0 3*0] ping(1, 4)                ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,1,144,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=0.0004850712 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*1152 1*4 1*576 1*1152 144*4 3*0]  ; 432 steps
        b: 0x8200 [16*4 1*160 1*320 3*64] part(3, 8)        ; 40 words, 160 B
        c: 0x400 [1*4 1*0 24*4 6*0 3*0]                     ; 432 steps
        d: 0x1800 [144*0 1*0 3*0] ping(1, 4)                ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,1,144,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*44 1*88 1*4 1*44 4*88 11*4 2*0]         ; 88 steps
        b: 0x8200 [16*4 1*92 4*184 2*64] part(3, 7)         ; 92 words, 368 B
        c: 0x400 [1*4 4*0 11*4 1*0 2*0]                     ; 88 steps
        d: 0x1800 [1*0 4*4 11*0 2*0]                        ; 88 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,1,1,1,4,11,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=28 lanes=64 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*256 1*4 2*128 2*256 32*4 2*0]     ; 256 steps
        b: 0x8200 [16*4 2*80 2*160 2*64] part(3, 4)         ; 80 words, 320 B
        c: 0x400 [1*4 4*0 32*4 1*0 2*0]                     ; 256 steps
        d: 0x1800 [1*0 4*4 32*0 2*0]                        ; 256 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,2,2,32,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=16 lanes=64 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*172 1*172 1*4 1*172 2*172 43*4 3*0]     ; 258 steps
        b: 0x8200 [16*4 1*136 2*136 3*64] part(3, 2)        ; 68 words, 272 B
        c: 0x400 [1*4 2*0 43*4 1*0 3*0]                     ; 258 steps
        d: 0x1800 [1*0 2*4 43*0 3*0]                        ; 258 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,1,1,2,43,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*28 3*84 1*4 1*84 2*84 7*4 3*0]          ; 126 steps
        b: 0x8200 [16*4 1*164 2*164 3*64] part(3, 9)        ; 82 words, 328 B
        c: 0x400 [3*4 2*0 7*12 1*0 3*0]                     ; 126 steps
        d: 0x1800 [3*0 2*4 7*0 3*0]                         ; 126 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,3,1,1,2,7,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*28 2*84 7*4 1*0 1*140 3*0 2*84]         ; 168 steps
        b: 0x8200 [7*4 1*28 1*28 3*252 2*756]               ; 42 words, 168 B
        c: 0x400 [2*4 2*8 7*0 1*16 1*0 3*576 2*0]           ; 168 steps
        d: 0x1800 [4*0 7*0 1*0 1*0 3*0 2*0] ping(1, 4)      ; 168 steps
        loops: loops=2,2,7,1,1,3,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0x3 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [9*20 1*0 1*0 1*0 1*0 1*0 1*0 5*4]         ; 45 steps
        b: 0x8200 [1*0 1*0 1*0 1*0 5*4]                     ; 5 words, 20 B
        c: 0x400 [9*4 1*0 1*0 1*0 1*0 1*0 1*0 5*36]         ; 45 steps
        d: 0x1800 [9*0 1*0 1*0 1*0 1*0 1*0 1*0 5*0] ping(4, 4); 45 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=9,1,1,1,1,1,1,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [18*16 3*96 1*0 1*0 1*0 1*0 1*0 4*4]       ; 216 steps
        b: 0x8200 [3*16 1*0 1*0 1*0 4*4]                    ; 12 words, 48 B
        c: 0x400 [18*4 3*0 1*0 1*0 1*0 1*0 1*0 4*72]        ; 216 steps
        d: 0x1800 [18*0 1*0 1*0 1*0 1*0 1*0 1*0 12*0] ping(4, 4); 216 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=18,1,1,1,3,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [2*32 6*96 1*0 1*0 1*0 1*0 1*0 8*4]        ; 96 steps
        b: 0x8200 [2*32 6*96 1*0 1*0 8*4]                   ; 96 words, 384 B
        c: 0x400 [12*0 1*0 1*0 1*0 1*0 1*0 1*0 8*4]         ; 96 steps
        d: 0x1800 [1*0 1*0 1*0 1*0 1*0 1*0 1*0 96*0] ping(4, 4); 96 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=1,1,1,1,12,1,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [9*4 1*36 1*36]                           ; 9 words, 36 B
        c: 0x400 [1*1 1*4 1*1 1*12]                         ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=36 lanes=36 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [1*1 2*4 1*2 1*8]                          ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [3*4 1*12 1*36]                           ; 3 words, 12 B
        c: 0x403 [1*1 2*8 1*3 1*8]                          ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=12 lanes=12 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [3*4 2*12 1*36]                           ; 6 words, 24 B
        c: 0x400 [1*1 2*8 2*3 1*8]                          ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        loops: loops=1,2,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=12 lanes=12 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [16*4 8*160 3*1280]                       ; 384 words, 1536 B
        c: 0x400 [2*1 1*12 8*1 3*12]                        ; 48 steps
        d: 0x1800 [2*0 8*0 3*0] ping(1, 4)                  ; 48 steps
        loops: loops=2,1,8,3
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [1*4 1*4 2*12]                            ; 2 words, 8 B
        c: 0x400 [1*1 1*4 1*2 2*4]                          ; 2 steps
        d: 0x1800 [1*0 1*0 2*0] ping(1, 4)                  ; 2 steps
        loops: loops=1,1,1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    mesh_eastward tiles=r1c1 received=@3
        receive: 0x2080 [9*1 1*8 9*64 1*9] part(3, 8)       ; 72 words, 288 B

    mesh_eastward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [8*1 1*5 3*15 1*8] part(3, 5)       ; 15 words, 60 B

    mesh_eastward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 2*25 8*125 2*16] part(3, 9)   ; 400 words, 1600 B

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*1 1*8]                                ; 2 words, 8 B
        receive: 0x2080 [3*1 1*8]                           ; 3 words, 12 B

    mesh_eastward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [3*1 1*8]                                ; 3 words, 12 B
        receive: 0x2080 [4*1 1*8]                           ; 4 words, 16 B

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*1 1*2]                                ; 2 words, 8 B
        receive: 0x2080 [2*1 1*2]                           ; 2 words, 8 B
        wait: mesh_west_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*2 1*12 1*2]                       ; 2 words, 8 B
        receive: 0x2080 [2*1 1*2 1*12 1*2]                  ; 2 words, 8 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3 fill fill_word=0x12345678
        send: 0x40 [7*1 1*7 1*35 1*7]                       ; 7 words, 28 B
        receive: 0x2080 [7*1 1*7 1*35 1*7]                  ; 7 words, 28 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*6]                                    ; 2 words, 8 B
        receive: 0x2080 [2*1 2*6]                           ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@1

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*8]                                    ; 2 words, 8 B
        receive: 0x2080 [2*1 2*8]                           ; 4 words, 16 B
        wait: mesh_south_in>=-30000+1*i@1

    mesh_eastward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [4*7]                                    ; 4 words, 16 B
        receive: 0x2080 [3*1 4*7]                           ; 12 words, 48 B
        wait: mesh_south_in>=-30000+1*i@1

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*2 1*6 1*2]                        ; 2 words, 8 B
        receive: 0x2080 [2*1 2*2 1*6 1*2]                   ; 4 words, 16 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1
        send: 0x40 [2*1]                                    ; 2 words, 8 B
        wait: avdata>=-30000+1*i@1

    mesh_eastward tiles=r1c1 received=@1
        send: 0x40 [2*1 2*7]                                ; 4 words, 16 B
        receive: 0x2080 [2*7]                               ; 2 words, 8 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@1
        send: 0x40 [2*1 4*7]                                ; 8 words, 32 B
        receive: 0x2080 [4*7]                               ; 4 words, 16 B
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 2*2 1*12 1*2]                       ; 4 words, 16 B
        receive: 0x2080 [2*1 1*2 1*12 1*2]                  ; 2 words, 8 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [1*1 2*3]                                ; 2 words, 8 B
        receive: 0x2080 [1*1 2*3]                           ; 2 words, 8 B

    mesh_eastward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [1*1 4*13]                               ; 4 words, 16 B
        receive: 0x2080 [1*1 4*13]                          ; 4 words, 16 B

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*1 2*6]                                ; 4 words, 16 B
        receive: 0x2080 [2*1 2*6]                           ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [2*1 2*6]                                ; 4 words, 16 B
        receive: 0x2080 [1*1 2*6]                           ; 2 words, 8 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [6*1 4*16]                               ; 24 words, 96 B
        receive: 0x2080 [4*1 4*16]                          ; 16 words, 64 B
        wait: mesh_west_in>=-30000+1*i@2
        wait: mesh_north_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [3*1 10*8]                               ; 30 words, 120 B
        receive: 0x2080 [2*1 10*8]                          ; 20 words, 80 B
        wait: mesh_west_in>=-30000+1*i@2
        wait: mesh_north_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*1 2*8]                                ; 4 words, 16 B
        receive: 0x2080 [3*1 2*8]                           ; 6 words, 24 B
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [3*1 2*8]                                ; 6 words, 24 B
        receive: 0x2080 [4*1 2*8]                           ; 8 words, 32 B
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [2*1 4*7]                                ; 8 words, 32 B
        receive: 0x2080 [1*1 4*7]                           ; 4 words, 16 B
        wait: mesh_west_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@2
        send: 0x40 [1*1 2*1]                                ; 2 words, 8 B
        receive: 0x2080 [1*1 2*1]                           ; 2 words, 8 B
        wait: mesh_west_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [1*1 2*1 1*8 1*1]                        ; 2 words, 8 B
        receive: 0x2080 [1*1 2*1 1*8 1*1]                   ; 2 words, 8 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [15*1 7*15 1*195 1*15]                   ; 105 words, 420 B
        receive: 0x2080 [15*1 4*15 1*195 1*15]              ; 60 words, 240 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_west_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1
        send: 0x40 [4*48 6*1]                               ; 24 words, 96 B
        wait: avdata>=-30000+1*i@1
        wait: mesh_north_in>=-30000+1*i@1

    mesh_eastward tiles=r1c1
        send: 0x40 [2*1 2*10]                               ; 4 words, 16 B
        wait: avdata>=-30000+1*i@2

    mesh_eastward tiles=r1c1
        send: 0x40 [2*1 3*2]                                ; 6 words, 24 B
        wait: mesh_north_in>=-30000+1*i@1

    mesh_eastward tiles=r1c1
        send: 0x40 [4*1 3*20]                               ; 12 words, 48 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1
        send: 0x40 [2*1 4*4]                                ; 8 words, 32 B
        wait: mesh_north_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1
        send: 0x40 [6*1 2*21]                               ; 12 words, 48 B
        wait: mesh_south_in>=-30000+1*i@2

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*2 2*10 1*2]                       ; 4 words, 16 B
        receive: 0x2080 [2*1 1*2 2*10 1*2]                  ; 4 words, 16 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 2*2 5*14 1*2]                       ; 20 words, 80 B
        receive: 0x2080 [2*1 1*2 5*14 1*2]                  ; 10 words, 40 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_west_in>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 5*2 11*16 1*2]                      ; 110 words, 440 B
        receive: 0x2080 [2*1 3*2 11*16 1*2]                 ; 66 words, 264 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_west_in>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 2*2 3*14 1*2]                       ; 12 words, 48 B
        receive: 0x2080 [2*1 1*2 3*14 1*2]                  ; 6 words, 24 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_west_in>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [15*1 7*15 2*195 1*15]                   ; 210 words, 840 B
        receive: 0x2080 [15*1 4*15 2*195 1*15]              ; 120 words, 480 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_west_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [3*1 4*3 2*21 1*3]                       ; 24 words, 96 B
        receive: 0x2080 [3*1 2*3 2*21 1*3]                  ; 12 words, 48 B
        wait: mesh_west_in>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [9*1 1*8 9*64 1*9] part(3, 8)            ; 72 words, 288 B
        receive: 0x2080 [9*1 1*8 9*64 1*9] part(3, 8)       ; 72 words, 288 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [9*1 1*8 10*64 1*9] part(3, 8)           ; 80 words, 320 B
        receive: 0x2080 [9*1 1*8 10*64 1*9] part(3, 8)      ; 80 words, 320 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1
        send: 0x40 [9*1 1*8 9*64 1*9] part(3, 8)            ; 72 words, 288 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1
        send: 0x40 [9*1 1*8 10*64 1*9] part(3, 8)           ; 80 words, 320 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*6 1*18 3*2]                       ; 6 words, 24 B
        receive: 0x2080 [2*1 1*6 1*18 3*2]                  ; 6 words, 24 B
        wait: avdata>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [1*1 2*6 4*48 6*1]                       ; 48 words, 192 B
        receive: 0x2080 [1*1 1*6 4*48 6*1]                  ; 24 words, 96 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [1*1 2*6 4*48 6*1]                       ; 48 words, 192 B
        receive: 0x2080 [1*1 1*6 4*48 6*1]                  ; 24 words, 96 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_eastward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*6 1*18 3*2]                       ; 6 words, 24 B
        receive: 0x2080 [2*1 1*6 1*18 3*2]                  ; 6 words, 24 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [8*1 1*5 1*15 1*8] part(3, 5)       ; 5 words, 20 B

    mesh_northward tiles=r1c1 received=@1 fill fill_word=0x12345678
        receive: 0x2080 [4*6 6*1]                           ; 24 words, 96 B

    mesh_northward tiles=r1c1 received=@3
        receive: 0x2080 [9*1 4*8 1*64 1*9] part(3, 8)       ; 32 words, 128 B

    mesh_northward tiles=r1c1 received=@3
        receive: 0x2080 [10*1 1*7 2*14 1*10] part(3, 7)     ; 14 words, 56 B

    mesh_northward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 1*99 3*16] part(3, 1)    ; 33 words, 132 B

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [10*1 1*7 1*14 1*10] part(3, 7)          ; 7 words, 28 B
        receive: 0x2080 [10*1 1*7 2*14 1*10] part(3, 7)     ; 14 words, 56 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [10*1 2*7 1*14 1*10] part(3, 7)          ; 14 words, 56 B
        receive: 0x2080 [10*1 2*7 2*14 1*10] part(3, 7)     ; 28 words, 112 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1
        send: 0x40 [9*1 4*8 1*64 1*9] part(3, 8)            ; 32 words, 128 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*2 2*6 1*2]                        ; 4 words, 16 B
        receive: 0x2080 [2*1 1*2 1*6 1*2]                   ; 2 words, 8 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [3*1 2*3 2*21 1*3]                       ; 12 words, 48 B
        receive: 0x2080 [3*1 2*3 1*21 1*3]                  ; 6 words, 24 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*2 11*6 1*2]                       ; 22 words, 88 B
        receive: 0x2080 [2*1 1*2 5*6 1*2]                   ; 10 words, 40 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [10*1 1*7 2*14 1*10] part(3, 7)          ; 14 words, 56 B
        receive: 0x2080 [10*1 1*7 1*14 1*10] part(3, 7)     ; 7 words, 28 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [10*1 2*7 2*14 1*10] part(3, 7)          ; 28 words, 112 B
        receive: 0x2080 [10*1 2*7 1*14 1*10] part(3, 7)     ; 14 words, 56 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1
        send: 0x40 [10*1 1*7 2*14 1*10] part(3, 7)          ; 14 words, 56 B
        wait: avdata>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [1*1 1*4 6*4 4*1]                        ; 24 words, 96 B
        receive: 0x2080 [1*1 1*4 3*4 4*1]                   ; 12 words, 48 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_northward tiles=r1c1 received=@3
        send: 0x40 [1*1 1*14 1*28 14*1]                     ; 14 words, 56 B
        receive: 0x2080 [1*1 1*14 1*28 14*1]                ; 14 words, 56 B
        wait: mesh_south_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 fill fill_word=0x12345678
        receive: 0x2080 [5*1]                               ; 5 words, 20 B

    mesh_southward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [8*1 1*5 1*15 1*8] part(3, 5)       ; 5 words, 20 B

    mesh_southward tiles=r1c1 received=@2
        send: 0x40 [2*1 1*2]                                ; 2 words, 8 B
        receive: 0x2080 [2*1 1*2]                           ; 2 words, 8 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [6*1 1*6 1*18 1*6]                       ; 6 words, 24 B
        receive: 0x2080 [6*1 1*6 1*18 1*6]                  ; 6 words, 24 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 received=@2
        send: 0x40 [4*1 2*32]                               ; 8 words, 32 B
        receive: 0x2080 [4*1 1*32]                          ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_southward tiles=r1c1 received=@2
        send: 0x40 [1*1 8*17]                               ; 8 words, 32 B
        receive: 0x2080 [1*1 4*17]                          ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [14*1 2*14 1*28 1*14]                    ; 28 words, 112 B
        receive: 0x2080 [14*1 2*14 1*28 1*14]               ; 28 words, 112 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [9*1 3*9 2*72 1*9]                       ; 54 words, 216 B
        receive: 0x2080 [9*1 3*9 1*72 1*9]                  ; 27 words, 108 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [1*1 1*1 3*6 1*1]                        ; 3 words, 12 B
        receive: 0x2080 [1*1 1*1 2*6 1*1]                   ; 2 words, 8 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [1*1 1*4 7*4 4*1]                        ; 28 words, 112 B
        receive: 0x2080 [1*1 1*4 4*4 4*1]                   ; 16 words, 64 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_southward tiles=r1c1 received=@3
        send: 0x40 [2*1 1*6 1*18 3*2]                       ; 6 words, 24 B
        receive: 0x2080 [2*1 1*6 1*18 3*2]                  ; 6 words, 24 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@1 fill fill_word=0x12345678
        receive: 0x2080 [16*1 8*16]                         ; 128 words, 512 B

    mesh_westward tiles=r1c1 received=@2 fill fill_word=0x12345678
        receive: 0x2080 [16*1 3*384 8*16]                   ; 384 words, 1536 B

    mesh_westward tiles=r1c1 received=@3
        receive: 0x2080 [9*1 2*8 9*64 1*9] part(3, 8)       ; 144 words, 576 B

    mesh_westward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [8*1 1*5 3*15 1*8] part(3, 5)       ; 15 words, 60 B

    mesh_westward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 3*99 3*16] part(3, 1)    ; 99 words, 396 B

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [5*1 1*11]                               ; 5 words, 20 B
        receive: 0x2080 [2*1 1*11]                          ; 2 words, 8 B
        wait: mesh_east_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@3 fill fill_word=0x12345678
        send: 0x40 [7*1 1*7 1*35 1*7]                       ; 7 words, 28 B
        receive: 0x2080 [7*1 1*7 1*35 1*7]                  ; 7 words, 28 B
        wait: mesh_north_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*7]                                    ; 2 words, 8 B
        receive: 0x2080 [2*1 2*7]                           ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@1

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*1 2*3]                                ; 4 words, 16 B
        receive: 0x2080 [1*1 2*3]                           ; 2 words, 8 B
        wait: mesh_east_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*1 5*3]                                ; 10 words, 40 B
        receive: 0x2080 [1*1 5*3]                           ; 5 words, 20 B
        wait: mesh_east_in>=-30000+1*i@2
        wait: mesh_north_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*1 5*3]                                ; 10 words, 40 B
        receive: 0x2080 [1*1 5*3]                           ; 5 words, 20 B
        wait: mesh_east_in>=-30000+1*i@2
        wait: mesh_north_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*1 3*3]                                ; 6 words, 24 B
        receive: 0x2080 [1*1 3*3]                           ; 3 words, 12 B
        wait: mesh_east_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@2
        send: 0x40 [2*1 2*6]                                ; 4 words, 16 B
        receive: 0x2080 [2*1 2*6]                           ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@2 fill fill_word=0x12345678
        send: 0x40 [2*1 2*6]                                ; 4 words, 16 B
        receive: 0x2080 [1*1 2*6]                           ; 2 words, 8 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [15*1 6*15 1*195 1*15]                   ; 90 words, 360 B
        receive: 0x2080 [15*1 3*15 1*195 1*15]              ; 45 words, 180 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3

    mesh_westward tiles=r1c1
        send: 0x40 [4*48 6*1]                               ; 24 words, 96 B
        wait: avdata>=-30000+1*i@1
        wait: mesh_north_in>=-30000+1*i@1

    mesh_westward tiles=r1c1
        send: 0x40 [2*1 2*7]                                ; 4 words, 16 B
        wait: mesh_north_in>=-30000+1*i@2

    mesh_westward tiles=r1c1
        send: 0x40 [2*1 3*8]                                ; 6 words, 24 B
        wait: mesh_north_in>=-30000+1*i@2
        wait: mesh_south_in>=-30000+1*i@2

    mesh_westward tiles=r1c1
        send: 0x40 [2*1 2*8]                                ; 4 words, 16 B
        wait: mesh_south_in>=-30000+1*i@2

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [1*1 3*1 4*8 1*1]                        ; 12 words, 48 B
        receive: 0x2080 [1*1 2*1 4*8 1*1]                   ; 8 words, 32 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [1*1 3*1 5*8 1*1]                        ; 15 words, 60 B
        receive: 0x2080 [1*1 2*1 5*8 1*1]                   ; 10 words, 40 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [2*1 2*2 5*14 1*2]                       ; 20 words, 80 B
        receive: 0x2080 [2*1 1*2 5*14 1*2]                  ; 10 words, 40 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3
        wait: mesh_north_in>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [2*1 2*2 3*14 1*2]                       ; 12 words, 48 B
        receive: 0x2080 [2*1 1*2 3*14 1*2]                  ; 6 words, 24 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [1*1 1*1 2*6 1*1]                        ; 2 words, 8 B
        receive: 0x2080 [1*1 1*1 2*6 1*1]                   ; 2 words, 8 B
        wait: mesh_east_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [9*1 2*8 9*64 1*9] part(3, 8)            ; 144 words, 576 B
        receive: 0x2080 [9*1 2*8 9*64 1*9] part(3, 8)       ; 144 words, 576 B
        wait: avdata>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [9*1 2*8 10*64 1*9] part(3, 8)           ; 160 words, 640 B
        receive: 0x2080 [9*1 2*8 10*64 1*9] part(3, 8)      ; 160 words, 640 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_westward tiles=r1c1
        send: 0x40 [9*1 2*8 9*64 1*9] part(3, 8)            ; 144 words, 576 B
        wait: avdata>=-30000+1*i@3

    mesh_westward tiles=r1c1
        send: 0x40 [9*1 2*8 10*64 1*9] part(3, 8)           ; 160 words, 640 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [16*1 1*128 1*384 8*16]                  ; 128 words, 512 B
        receive: 0x2080 [16*1 1*128 1*384 8*16]             ; 128 words, 512 B
        wait: avdata>=-30000+1*i@3

    mesh_westward tiles=r1c1 received=@3
        send: 0x40 [16*1 2*128 1*384 8*16]                  ; 256 words, 1024 B
        receive: 0x2080 [16*1 1*128 1*384 8*16]             ; 128 words, 512 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_east_in>=-30000+1*i@3

    mesh_westward tiles=r1c1
        send: 0x40 [16*1 2*26 2*104 2*16] part(3, 10)       ; 104 words, 416 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 1*4]                              ; 4 words, 16 B
        wide: 0x600 [1*1] ping(1, 1)                        ; 1 row, 256 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 transpose=bytes pack_level=2
        narrow: 0x40 [4*9 9*1 1*36]                         ; 36 words, 144 B
        wide: 0x600 [1*1]                                   ; 1 row, 256 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=2
        narrow: 0x40 [4*1 2*6]                              ; 8 words, 32 B
        wide: 0x600 [1*1]                                   ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 4*4]                              ; 16 words, 64 B
        wide: 0x600 [4*1]                                   ; 4 rows, 1024 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 2*4]                              ; 8 words, 32 B
        wide: 0x600 [2*1]                                   ; 2 rows, 512 B
        wait: mesh_south_in>=0@1

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=1
        narrow: 0x40 [16*1 2*16]                            ; 32 words, 128 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 2*4]                              ; 8 words, 32 B
        wide: 0x600 [2*1] ping(1, 2)                        ; 2 rows, 512 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 135*4]                            ; 540 words, 2160 B
        wide: 0x600 [15*1 9*0] ping(1, 15)                  ; 135 rows, 34560 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [16*1 2*16] part(1, 10)                ; 26 words, 104 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=1
        narrow: 0x40 [16*1 2*16] part(1, 10)                ; 26 words, 104 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 transpose=bytes pack_level=2
        narrow: 0x40 [4*1 1*1 2*4]                          ; 8 words, 32 B
        wide: 0x600 [2*1]                                   ; 2 rows, 512 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@2 pack_level=3
        narrow: 0x40 [11*1 6*11 5*77 1*16]                  ; 330 words, 1320 B
        wide: 0x600 [6*1 1*8]                               ; 6 rows, 1536 B
        wait: ring_write>=0@2 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 2*4 5*8]                          ; 40 words, 160 B
        wide: 0x600 [2*1 5*2]                               ; 10 rows, 2560 B
        wait: avdata>=-30000+1*i@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@2 pack_level=3
        narrow: 0x40 [16*1 1*64 1*64 4*16]                  ; 64 words, 256 B
        wide: 0x600 [1*1 4*1]                               ; 4 rows, 1024 B
        wait: ring_write>=0@2 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@2 pack_level=3
        narrow: 0x40 [16*1 1*25 4*25 2*16] part(3, 9)       ; 100 words, 400 B
        wide: 0x600 [1*1 2*2]                               ; 2 rows, 512 B
        wait: ring_write>=0@2 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@2 pack_level=3
        narrow: 0x40 [16*1 1*25 5*25 2*16] part(3, 9)       ; 125 words, 500 B
        wide: 0x600 [2*1 2*2] part(1, 1)                    ; 3 rows, 768 B
        wait: ring_write>=0@2 write

    ring_consume_a tiles=r1c1 ring_read=@0
        wide: 0x600 [2*1]                                   ; 2 rows, 512 B

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x600 [47*1] ping(1, 47) part(1, 12)          ; 12 rows, 3072 B
        wait: wide_to_narrow>=-30000+3008*i@1 write

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x606 [16*1 3*16 2*0]                         ; 96 rows, 24576 B
        prefix: level=0 base=0x600 words=2 end=0x605 step=2
        wait: parameters>=-30000+1*i@1 write

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x600 [9*1 4*9 5*0]                           ; 180 rows, 46080 B
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x604 [1*1] ping(1, 1)                        ; 1 row, 256 B
        prefix: level=0 base=0x600 words=2 end=0x603 step=2
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x600 [2*1]                                   ; 2 rows, 512 B

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [1*1 4*1]                               ; 4 rows, 1024 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x607 [3*1 7*3 2*0]                           ; 42 rows, 10752 B
        prefix: level=0 base=0x600 words=1 end=0x606 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [1*1 4*1 2*0]                           ; 8 rows, 2048 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x600 [1*1 6*1 6*0]                           ; 36 rows, 9216 B
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [1*1 4*1 2*0 3*0]                       ; 24 rows, 6144 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x600 [1*1 11*1 1*0 2*0]                      ; 22 rows, 5632 B
        wait: parameters>=-30000+1*i@1 write

    ring_produce tiles=r1c1 ring_write=@1 token=@2 destination=r0c0
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        wait: ring_producer_a>=0@2
        wait: narrow_to_wide>=-30000+1*i@1

    ring_produce tiles=r1c1 ring_write=@1 token=@2 destination=r0c0
        wide: 0x100 [4*1]                                   ; 4 rows, 1024 B
        wait: ring_producer_a>=0@2
        wait: narrow_to_wide>=-30000+1*i@1

    fadd s12, s0, 2.25f | exp2 s13, s2

    fadd s12, s0, s1 | load s14, [s6]+=1

    fmax s12, s0, s1 | load s14, [s6]+=1

    fmul s12, s0, s1 | load s14, [s6]+=1

    shl s12, s0, 5 | load s14, [s6]+=1

    and s12, s0, 5 | load s14, [s6]

    fadd s12, s0, s1 | load s14, [s6]

    mov s12, s1 | load s14, [s6]

    shr s12, s0, 5 | load s14, [s6]

    f2i s12, s0, s1 | store [s7]+=1, s3

    fmul s12, s0, 2.25f | store [s7]+=1, s3

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [2*1 1*2 1*2]                        ; 2 words, 8 B
        wait: ring_read_b>=0@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@1 pack_level=1
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [2*1]                                ; 2 words, 8 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=1
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [3*0] ping(0, 1)                     ; 3 words, 12 B
        prefix: level=0 base=0x2080 words=1 end=0x2080 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@0 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [3*1 2*21]                           ; 6 words, 24 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [1*1 2*1 1*2]                        ; 2 words, 8 B
        wait: ring_read_b>=0@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@2 pack_level=2
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [2*1 2*8]                            ; 4 words, 16 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [16*1 2*256] part(1, 10)             ; 26 words, 104 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [5*1 3*0] ping(1, 5)                 ; 15 words, 60 B
        prefix: level=1 base=0x2080 words=1 end=0x2080 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [1*1 1*1 5*1]                        ; 5 words, 20 B
        wait: ring_read_b>=0@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@1 pack_level=1
        wide: 0x100 [1*1] ping(1, 1)                        ; 1 row, 256 B
        narrow: 0x2080 [2*1]                                ; 2 words, 8 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1] ping(1, 1)                        ; 1 row, 256 B
        narrow: 0x2080 [4*1] ping(1, 4) part(1, 1)          ; 1 word, 4 B
        prefix: level=1 base=0x2080 words=3 end=0x2082 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1] ping(1, 1)                        ; 1 row, 256 B
        narrow: 0x2080 [5*1] ping(1, 5) part(1, 2)          ; 2 words, 8 B
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [8*1]                                   ; 8 rows, 2048 B
        narrow: 0x2080 [490*1 1*490]                        ; 490 words, 1960 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1]                                   ; 2 rows, 512 B
        narrow: 0x2080 [10*1 10*44]                         ; 100 words, 400 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [2*1]                                   ; 2 rows, 512 B
        narrow: 0x2080 [12*1 6*12 1*84]                     ; 72 words, 288 B
        wait: ring_read_b>=0@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1]                                   ; 2 rows, 512 B
        narrow: 0x2080 [1*1 2*2 2*1]                        ; 4 words, 16 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [2*1]                                   ; 2 rows, 512 B
        narrow: 0x2080 [43*1 1*43 2*43]                     ; 86 words, 344 B
        wait: ring_read_b>=0@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@4 pack_level=3
        wide: 0x100 [2*1 1*32]                              ; 2 rows, 512 B
        narrow: 0x2080 [16*1 1*16 5*16 1*304]               ; 80 words, 320 B
        wait: ring_read_a>=0@2

    wide_to_narrow tiles=r1c1 wide_to_narrow=@1 pack_level=1
        wide: 0x100 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        narrow: 0x2080 [16*1 2*16]                          ; 32 words, 128 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1] ping(1, 2)                        ; 2 rows, 512 B
        narrow: 0x2080 [81*1] ping(1, 81) part(1, 18)       ; 18 words, 72 B
        prefix: level=1 base=0x2080 words=64 end=0x20bf step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1] ping(1, 2)                        ; 2 rows, 512 B
        narrow: 0x2080 [93*1] ping(1, 93) part(1, 70)       ; 70 words, 280 B
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1] ping(1, 2) part(1, 1)             ; 1 row, 256 B
        narrow: 0x2080 [91*1] ping(1, 92) part(1, 6)        ; 6 words, 24 B
        prefix: level=1 base=0x2080 words=18 end=0x2091 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1] ping(1, 2) part(1, 1)             ; 1 row, 256 B
        narrow: 0x2080 [91*1] ping(1, 92) part(1, 24)       ; 24 words, 96 B
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@2 to_scaling pack_level=1
        wide: 0x100 [1*0 2*1]                               ; 2 rows, 512 B
        narrow: 0 [32*1 2*64] ping(2, 32)                   ; 64 entries, 512 B
        wait: avdata>=-30000+1*i@2 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@4 pack_level=3
        wide: 0x100 [1*1 2*16]                              ; 2 rows, 512 B
        narrow: 0x2080 [16*1 1*16 1*112 2*784]              ; 32 words, 128 B
        wait: ring_read_a>=0@2

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1 3*0] ping(1, 1)                    ; 3 rows, 768 B
        narrow: 0x2080 [19*1 7*0] ping(1, 19)               ; 133 words, 532 B
        prefix: level=1 base=0x2080 words=1 end=0x2080 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [2*1 4*0] ping(1, 2) part(1, 1)         ; 7 rows, 1792 B
        narrow: 0x2080 [77*1 5*0] ping(1, 78)               ; 385 words, 1540 B
        prefix: level=1 base=0x2080 words=1 end=0x2080 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [1*1]                                ; 1 word, 4 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [1*1]                                   ; 1 row, 256 B
        narrow: 0x2080 [1*1 1*1 1*2]                        ; 1 word, 4 B
        wait: ring_read_b>=0@1

    infeed infed=@0 destination=r1c1 row_words=48
        buffer: 0 [1024*1 2*0] ping(1, 1024) part(1, 476)   ; 1500 steps
        wait: parameter_pop>=1+1*i@0

    infeed infed=@0 destination=r1c1 row_words=64
        buffer: 0 [1024*1] ping(1, 1024)                    ; 1024 steps
        wait: parameter_pop>=1+1*i@0

    infeed infed=@0 destination=r1c1 row_words=64
        buffer: 0 [1024*1 2*0] ping(1, 1024)                ; 2048 steps
        wait: parameter_pop>=1+1*i@0
