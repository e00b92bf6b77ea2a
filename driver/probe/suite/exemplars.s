; Written by python -m benchmarks.probe_forms: instructions that probes put to a device.

    infeed infed=@0 destination=r1c1 row_words=48
        buffer: 0 [1024*1 2*0] ping(1, 1024) part(1, 326)   ; 1350 steps
        wait: parameter_pop>=1+1*i@0

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
        a: 0x100 [1*4 1*256 1*4 1*1024 1*65536]             ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*8 1*4 1*12 1*8]                     ; 1 step
        b: 0x8200 [1*4 1*4 1*20 1*64]                       ; 1 word, 4 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=260 zero_point_step=3 zero_point_base=257
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=260 zero_point_step=3 zero_point_base=257
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
        a: 0x100 [1*1 1*4 1*1 1*1] ping(4, 16)              ; 1 step
        b: 0x8200 [1*4 1*4 1*12 1*192]                      ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.011641709 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@1
        a: 0x100 [9*4]                                      ; 9 steps
        b: 0x8200 [1*1]                                     ; 1 word, 4 B
        c: 0x400 [9*4]                                      ; 9 steps
        d: 0x1800 [9*0]                                     ; 9 steps
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=9
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=265 zero_point_step=1 zero_point_base=265
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*4 1*4]                                  ; 4 steps
        b: 0x8200 [1*4]                                     ; 1 word, 4 B
        c: 0x400 [4*0]                                      ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        loops: loops=4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*4 1*8 1*8]                              ; 2 steps
        b: 0x8200 [1*8 1*8]                                 ; 1 word, 4 B
        c: 0x400 [2*4]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=263 zero_point_step=3 zero_point_base=260
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        loops: loops=5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=20 lanes=20 scale=0.0026031653 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [5*4 1*20]                                 ; 5 steps
        b: 0x8200 [5*4 1*20]                                ; 5 words, 20 B
        c: 0x400 [5*4] ping(2, 20)                          ; 5 steps
        d: 0x1800 [5*0] ping(1, 4)                          ; 5 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=264 zero_point_step=3 zero_point_base=261
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

    mac tiles=r1c1
        a: 0x100 [2*8]                                      ; 2 steps
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [1*0 2*0]                                  ; 2 steps
        d: 0x1800 [2*0] ping(0, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: lanes_last=16 lanes=16 output16 scale=0.008264087 maximum=32767 minimum=-32768 output_zero_point=32768

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

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [5*4 6*20 1*4]                             ; 30 steps
        b: 0x8200 [1*4 1*4]                                 ; 1 word, 4 B
        c: 0x400 [30*4] ping(2, 120)                        ; 30 steps
        d: 0x1800 [30*0] ping(1, 4)                         ; 30 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=286
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [7*4 4*28 1*4 1*4 1*28]                    ; 28 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [28*4] ping(2, 112)                        ; 28 steps
        d: 0x1800 [28*0] ping(1, 4)                         ; 28 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=7,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=286 zero_point_step=2 zero_point_base=284
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0011000382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 6*16 1*4 1*12 1*16]                   ; 24 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [24*4] ping(2, 96)                         ; 24 steps
        d: 0x1800 [24*0] ping(1, 4)                         ; 24 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=280
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=271 zero_point_step=3 zero_point_base=268
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=268 zero_point_step=3 zero_point_base=265
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=264 zero_point_step=2 zero_point_base=262
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@4
        a: 0x100 [1*0 11*4]                                 ; 11 steps
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [1*0 11*4]                                 ; 11 steps
        d: 0x1800 [11*0] ping(1, 1)                         ; 11 steps
        loops: loops=1,11
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0017550538 maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [1*0 28*4]                                 ; 28 steps
        b: 0x8200 [5*4]                                     ; 5 words, 20 B
        c: 0x400 [14*4 2*0] ping(1, 56)                     ; 28 steps
        d: 0x1800 [1*0 28*0]                                ; 28 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=14,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=287 zero_point_step=3 zero_point_base=284
        output: block_level=2 reduction=0x3 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [9*16 4*4]                                 ; 36 steps
        b: 0x8200 [15*4]                                    ; 15 words, 60 B
        c: 0x400 [18*4 2*0] ping(1, 72)                     ; 36 steps
        d: 0x1800 [1*0 36*0]                                ; 36 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=18,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=294 zero_point_step=2 zero_point_base=292
        output: block_level=2 reduction=0x3 lanes_last=60 lanes=60 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [9*132 1*0 33*4]                           ; 297 steps
        b: 0x8200 [13*4]                                    ; 13 words, 52 B
        c: 0x400 [27*4 11*0] ping(1, 108)                   ; 297 steps
        d: 0x1800 [1*0 297*0]                               ; 297 steps
        wait: ring_read_b>=-30000+1*i@1
        loops: loops=27,11
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=52 lanes=52 scale=0.00033776026 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [7*20 4*160 5*4]                           ; 140 steps
        b: 0x8200 [3*4]                                     ; 3 words, 12 B
        c: 0x400 [28*4 5*0] ping(1, 112)                    ; 140 steps
        d: 0x1800 [1*0 140*0]                               ; 140 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=28,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=12 lanes=12 scale=0.000491952 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [5*8 4*48 2*4]                             ; 40 steps
        b: 0x8200 [13*4]                                    ; 13 words, 52 B
        c: 0x400 [20*4 2*0] ping(1, 80)                     ; 40 steps
        d: 0x1800 [1*0 40*0]                                ; 40 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=20,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=2 reduction=0x3 lanes_last=52 lanes=52 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 2*4 1*0 9*32]                         ; 36 steps
        b: 0x8200 [4*4 2*32 9*128]                          ; 72 words, 288 B
        c: 0x400 [2*4 18*0]                                 ; 36 steps
        d: 0x1800 [2*0 18*0] ping(1, 4)                     ; 36 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=2,18
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [32*4 3*1088 16*64 3*1088]                 ; 4608 steps
        b: 0x8200 [1*0 1*0 768*4]                           ; 768 words, 3072 B
        c: 0x400 [96*4 48*0] ping(2, -381)                  ; 4608 steps
        d: 0x1800 [96*0 48*0] ping(1, 4)                    ; 4608 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=96,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=352 zero_point_step=3 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [12*4 9*80 3*16 2*320]                     ; 648 steps
        b: 0x8200 [4*4 4*48 3*16 2*192]                     ; 96 words, 384 B
        c: 0x400 [108*4 6*0] ping(2, -429)                  ; 648 steps
        d: 0x1800 [108*0 6*0] ping(1, 4)                    ; 648 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=108,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=364 zero_point_step=3 zero_point_base=364
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [16*4 6*448 7*64 1*0 2*1344]               ; 1344 steps
        b: 0x8200 [4*28 7*4 2*84]                           ; 56 words, 224 B
        c: 0x400 [96*4 14*0] ping(2, -381)                  ; 1344 steps
        d: 0x1800 [96*0 14*0] ping(1, 4)                    ; 1344 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=96,14
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=352 zero_point_step=1 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=0.0005940885 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*12 5*80 3*4 1*0 8*40]                   ; 360 steps
        b: 0x8200 [48*4 1*0 8*256]                          ; 384 words, 1536 B
        c: 0x400 [15*4 24*0] ping(2, 60)                    ; 360 steps
        d: 0x1800 [15*0 24*0] ping(1, 4)                    ; 360 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=15,24
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=273 zero_point_step=2 zero_point_base=271
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*20 1*0 1*0 2*8]                     ; 18 steps
        b: 0x8200 [1*0 1*0 2*4]                             ; 2 words, 8 B
        c: 0x400 [9*4 2*0] ping(2, 36)                      ; 18 steps
        d: 0x1800 [9*0 2*0] ping(1, 4)                      ; 18 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=267 zero_point_step=2 zero_point_base=265
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 4*16 2*4 1*0 3*32]                    ; 72 steps
        b: 0x8200 [2*16 2*4 3*32]                           ; 12 words, 48 B
        c: 0x400 [12*4 6*0] ping(2, 48)                     ; 72 steps
        d: 0x1800 [12*0 6*0] ping(1, 4)                     ; 72 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=12,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=270 zero_point_step=2 zero_point_base=268
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [14*4 6*88 2*32 1*0 3*264]                 ; 504 steps
        b: 0x8200 [4*4 3*32 2*16 3*96]                      ; 72 words, 288 B
        c: 0x400 [84*4 6*0] ping(2, -333)                   ; 504 steps
        d: 0x1800 [84*0 6*0] ping(1, 4)                     ; 504 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=84,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=340 zero_point_step=1 zero_point_base=340
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.0006351073 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [6*56 4*12 1*0 1*0 3*112]                  ; 72 steps
        b: 0x8200 [6*4 2*120 4*24 3*240]                    ; 144 words, 576 B
        c: 0x400 [6*4 12*0] ping(2, -21)                    ; 72 steps
        d: 0x1800 [6*0 12*0] ping(1, 4)                     ; 72 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,12
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.002376354 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [42*4 5*504 4*112 1*0 3*1512]              ; 2520 steps
        b: 0x8200 [4*4 3*88 4*16 3*264]                     ; 144 words, 576 B
        c: 0x400 [210*4 12*0] ping(2, -837)                 ; 2520 steps
        d: 0x1800 [210*0 12*0] ping(1, 4)                   ; 2520 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=210,12
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=466 zero_point_step=3 zero_point_base=466
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 16*16 2*8 1*0 5*128]                  ; 320 steps
        b: 0x8200 [3*4 2*24 2*12 5*48]                      ; 60 words, 240 B
        c: 0x400 [32*4 10*0] ping(2, -125)                  ; 320 steps
        d: 0x1800 [32*0 10*0] ping(1, 4)                    ; 320 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=32,10
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=288 zero_point_step=2 zero_point_base=288
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*32 1*1024 8*4 1*4096 1*131072]          ; 8 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [8*4] ping(2, 32)                          ; 8 steps
        d: 0x1800 [8*0] ping(1, 4)                          ; 8 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*40 1*80 10*4 1*40 1*80]                 ; 10 steps
        b: 0x8200 [1*4 1*4 1*16 1*64]                       ; 1 word, 4 B
        c: 0x400 [10*4] ping(2, 40)                         ; 10 steps
        d: 0x1800 [10*0] ping(1, 4)                         ; 10 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,10
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=269 zero_point_step=3 zero_point_base=266
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [1*36 1*108 9*4 1*108 1*324]               ; 9 steps
        b: 0x8200 [5*4 1*20 1*20 1*64]                      ; 5 words, 20 B
        c: 0x400 [9*4] ping(2, 36)                          ; 9 steps
        d: 0x1800 [9*0] ping(1, 4)                          ; 9 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=20 lanes=20 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*16 1*32 4*4 1*16 1*32]                  ; 4 steps
        b: 0x8200 [14*4 1*56 1*112 1*64]                    ; 14 words, 56 B
        c: 0x400 [4*4] ping(2, 16)                          ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=263 zero_point_step=3 zero_point_base=260
        output: block_level=5 reduction=0x7 lanes_last=56 lanes=56 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*44 1*88 11*4 1*88 1*264]                ; 11 steps
        b: 0x8200 [6*4 1*24 1*72 1*64]                      ; 6 words, 24 B
        c: 0x400 [11*4] ping(2, 44)                         ; 11 steps
        d: 0x1800 [11*0] ping(1, 4)                         ; 11 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,11
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=269 zero_point_step=2 zero_point_base=267
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

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*4 3*12 3*36 1*12]                       ; 27 steps
        b: 0x8200 [12*4 1*48] part(1, 11)                   ; 11 words, 44 B
        c: 0x400 [27*4] ping(2, 108)                        ; 27 steps
        d: 0x1800 [27*0] ping(1, 4)                         ; 27 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,3,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=286 zero_point_step=3 zero_point_base=283
        output: block_level=3 reduction=0x7 lanes_last=44 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=313 zero_point_step=3 zero_point_base=310
        output: block_level=2 reduction=0x3 lanes_last=12 lanes=12 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 1*4 3*4 1*48]                         ; 3 steps
        b: 0x8200 [1*4 3*4 1*12]                            ; 3 words, 12 B
        c: 0x400 [1*0 1*4 3*4 1*12] ping(4, 12)             ; 3 steps
        d: 0x1800 [1*0 1*0 3*0] ping(1, 4)                  ; 3 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,1,3
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

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
        c: 0x400 [9*4 1*0 3*36 48*0]                        ; 1296 steps
        d: 0x1800 [9*0 1*0 144*0] ping(1, 4)                ; 1296 steps
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=3,3,144
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
        output: block_level=2 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [12*4 3*192 3*768 4*48]                    ; 432 steps
        b: 0x8200 [48*4 3*256]                              ; 144 words, 576 B
        c: 0x400 [12*4 9*0 4*0] ping(2, 48)                 ; 432 steps
        d: 0x1800 [12*0 9*4 4*0]                            ; 432 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=12,9,4
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=280
        output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=277
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=2 zero_point_base=295
        output: block_level=2 reduction=0x1 lanes_last=28 lanes=28 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 18*112 1*0 7*16]                      ; 504 steps
        b: 0x8200 [4*4 2*224 1*0 7*16]                      ; 56 words, 224 B
        c: 0x400 [36*4 2*0 7*0] ping(2, 144)                ; 504 steps
        d: 0x1800 [36*0 1*0 14*0] ping(1, 4)                ; 504 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,2,7
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*8 8*72 3*8 2*4]                         ; 288 steps
        b: 0x8200 [2*32 3*8 1*0 2*4]                        ; 12 words, 48 B
        c: 0x400 [48*4 3*0 2*0] ping(2, 192)                ; 288 steps
        d: 0x1800 [48*0 1*0 6*0] ping(1, 4)                 ; 288 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=48,3,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=354 zero_point_step=2 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*16 3*64 5*64 4*4]                       ; 180 steps
        b: 0x8200 [5*4 5*228 1*0 4*20] part(3, 4)           ; 95 words, 380 B
        c: 0x400 [9*4 5*0 4*36]                             ; 180 steps
        d: 0x1800 [9*0 1*0 20*0] ping(1, 4)                 ; 180 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=9,5,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=301 zero_point_step=3 zero_point_base=292
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*4 5*820 1*0 7*24]                       ; 210 steps
        b: 0x8200 [6*4 5*656 1*0 7*24] part(3, 5)           ; 205 words, 820 B
        c: 0x400 [6*4 5*0 7*24]                             ; 210 steps
        d: 0x1800 [6*0 1*0 35*0] ping(1, 4)                 ; 210 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,5,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=310 zero_point_step=2 zero_point_base=298
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 1*0 1*0 3*0]                          ; 15 steps
        b: 0x8200 [16*4 1*0 1*0 3*64] part(3, 5)            ; 37 words, 148 B
        c: 0x400 [5*4 1*0 3*0] ping(2, 20)                  ; 15 steps
        d: 0x1800 [5*0 1*0 3*0] ping(1, 4)                  ; 15 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=268 zero_point_step=2 zero_point_base=266
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=269 zero_point_step=3 zero_point_base=266
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 24*52 3*208 7*8]                      ; 1008 steps
        b: 0x8200 [2*4 3*156 1*0 7*8] part(3, 1)            ; 39 words, 156 B
        c: 0x400 [48*4 3*0 7*0] ping(2, 192)                ; 1008 steps
        d: 0x1800 [48*0 1*0 21*0] ping(1, 4)                ; 1008 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=48,3,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=354 zero_point_step=2 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*16 3*312 7*8 6*104 2*4]                 ; 756 steps
        b: 0x8200 [1*0 672*4]                               ; 672 words, 2688 B
        c: 0x400 [9*4 42*0 2*0] ping(2, 36)                 ; 756 steps
        d: 0x1800 [9*0 42*4 2*0]                            ; 756 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,42,2
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=277 zero_point_step=3 zero_point_base=274
        output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*12 5*120 7*12 9*120 3*4]                ; 3780 steps
        b: 0x8200 [7*4 9*48]                                ; 63 words, 252 B
        c: 0x400 [20*4 63*0 3*0] ping(2, 80)                ; 3780 steps
        d: 0x1800 [20*0 63*4 3*0]                           ; 3780 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=20,63,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=3 reduction=0x5 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*12 3*96 1*0 1*0 3*4]                    ; 27 steps
        b: 0x8200 [2*4 1*0 3*8] part(2, 2)                  ; 6 words, 24 B
        c: 0x400 [9*4 1*0 3*36]                             ; 27 steps
        d: 0x1800 [9*0 1*0 3*0] ping(1, 4)                  ; 27 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=9,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*52 5*624 2*208 1*0 1*0 13*4]            ; 520 steps
        b: 0x8200 [1*0 2*4]                                 ; 2 words, 8 B
        c: 0x400 [20*4 2*0 13*0] ping(2, 80)                ; 520 steps
        d: 0x1800 [20*0 2*4 13*0]                           ; 520 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=20,2,13
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=2 zero_point_base=296
        output: block_level=3 reduction=0x5 lanes_last=4 lanes=4 scale=0.0013015827 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*64 3*320 2*128 2*640 8*8]           ; 576 steps
        b: 0x8200 [2*4 4*64 1*0 8*8]                        ; 64 words, 256 B
        c: 0x400 [18*4 4*0 8*72]                            ; 576 steps
        d: 0x1800 [18*0 1*0 32*0] ping(1, 4)                ; 576 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=18,4,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*128 3*640 2*256 3*1280 8*16]        ; 1728 steps
        b: 0x8200 [4*4 6*128 1*0 8*16]                      ; 192 words, 768 B
        c: 0x400 [36*4 6*0 8*144]                           ; 1728 steps
        d: 0x1800 [36*0 1*0 48*0] ping(1, 4)                ; 1728 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,6,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=565 zero_point_step=3 zero_point_base=544
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*256 5*2304 4*512 2*4608 16*16]      ; 7680 steps
        b: 0x8200 [4*4 2*1024 8*256 16*16]                  ; 1024 words, 4096 B
        c: 0x400 [60*4 8*0 16*0] ping(2, 240)               ; 7680 steps
        d: 0x1800 [60*0 1*0 128*0] ping(1, 4)               ; 7680 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=60,8,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=32 lanes=32 scale=0.0007514691 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*4 3*384 4*2304 4*384 2*2304 16*24]      ; 9216 steps
        b: 0x8200 [6*4 2*1536 8*384 16*24]                  ; 1536 words, 6144 B
        c: 0x400 [72*4 8*0 16*0] ping(2, 288)               ; 9216 steps
        d: 0x1800 [72*0 1*0 128*0] ping(1, 4)               ; 9216 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=72,8,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=403 zero_point_step=3 zero_point_base=400
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 3*512 4*3072 4*512 2*3072 26*20]      ; 12480 steps
        b: 0x8200 [5*4 2*2048 8*512 26*20] part(3, 3)       ; 2048 words, 8192 B
        c: 0x400 [60*4 8*0 26*0] ping(2, 240)               ; 12480 steps
        d: 0x1800 [60*0 1*0 208*0] ping(1, 4)               ; 12480 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=60,8,26
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=40 scale=0.0007514691 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [4*4 4*128 4*896 3*256 3*1792 8*16]        ; 4608 steps
        b: 0x8200 [4*4 2*128 2*768 3*256 3*1536 8*16]       ; 1152 words, 4608 B
        c: 0x400 [64*4 9*0 8*256]                           ; 4608 steps
        d: 0x1800 [64*0 1*0 72*0] ping(1, 4)                ; 4608 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=64,9,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=64 lanes=64 scale=0.0007276068 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [3*576 3*3456 2*6912 144*4]                ; 2592 steps
        b: 0x8200 [1*4 2*1152 144*4]                        ; 288 words, 1152 B
        c: 0x400 [9*4 2*0 3*36 48*0]                        ; 2592 steps
        d: 0x1800 [9*0 2*0 144*0] ping(1, 4)                ; 2592 steps
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,3,2,144
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
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

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 10*24 2*12 2*96 1*12]                 ; 120 steps
        b: 0x8200 [4*4 4*32 2*16 2*128 1*16]                ; 64 words, 256 B
        c: 0x400 [30*4 4*0 1*120]                           ; 120 steps
        d: 0x1800 [30*0 4*0] ping(1, 4)                     ; 120 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,10,2,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=286 zero_point_step=2 zero_point_base=286
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@3
        a: 0x100 [2*4 6*32 3*8 4*64]                        ; 144 steps
        b: 0x8200 [8*4 2*128 3*32 4*256]                    ; 192 words, 768 B
        c: 0x400 [12*4 1*0 12*0]                            ; 144 steps
        d: 0x1800 [12*0 12*0] ping(1, 4)                    ; 144 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,12
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=64 lanes=64 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [8*48 6*624 3*96 12*4]                     ; 1728 steps
        b: 0x8200 [1*4 2*48 3*96 12*4]                      ; 72 words, 288 B
        c: 0x400 [48*4 3*0 3*192 4*0]                       ; 1728 steps
        d: 0x1800 [48*0 3*0 12*0] ping(1, 4)                ; 1728 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=8,6,3,12
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=3 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [8*4 10*88 8*8 4*352 1*4]                  ; 2560 steps
        b: 0x8200 [2*4 2*8 4*128 8*16 4*512 1*8]            ; 512 words, 2048 B
        c: 0x400 [80*4 32*0 1*320]                          ; 2560 steps
        d: 0x1800 [80*0 32*0] ping(1, 4)                    ; 2560 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=8,10,8,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=336 zero_point_step=2 zero_point_base=336
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.00065079133 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*4 1*0 1*0 1*0 7*48]                     ; 28 steps
        b: 0x8200 [1*0 1*0 7*64]                            ; 7 words, 28 B
        c: 0x400 [4*2 1*0 1*0 1*0 7*0]                      ; 28 steps
        d: 0x1800 [4*0 1*0 1*0 1*0 7*0] ping(1, 4)          ; 28 steps
        loops: loops=4,1,1,7
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=1.6077991e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [1*0 1*0 1*0 1*0 4*4]                      ; 4 steps
        b: 0x8200 [2*4 1*0 2*16]                            ; 4 words, 16 B
        c: 0x400 [2*2 1*0 1*0 1*0 2*0]                      ; 4 steps
        d: 0x1800 [2*0 1*0 1*0 1*0 2*0] ping(1, 4)          ; 4 steps
        loops: loops=2,1,1,2
        operands: accumulate a16
        zero_points: c_zero_point=128 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 nlu nlu_rsqrt output16 scale=0.0058435923 maximum=32767 minimum=-32768

    mac tiles=r1c1
        a: 0x100 [4*2 2*16 1*0 1*0 2*8]                     ; 16 steps
        b: 0x8200 [1*0 1*0 2*4]                             ; 2 words, 8 B
        c: 0x400 [8*2 1*0 1*0 1*0 2*0]                      ; 16 steps
        d: 0x1800 [8*0 1*0 1*0 1*0 2*0] ping(1, 4)          ; 16 steps
        loops: loops=8,1,1,2
        operands: accumulate a16 c16
        zero_points: c_zero_point=32768 a_zero_point=32768
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=6.280465e-08 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*32 1*0 1*0 1*0 4*4]                     ; 8 steps
        b: 0x8200 [1*0 1*0 8*4]                             ; 8 words, 32 B
        c: 0x400 [2*4 1*0 1*0 1*0 4*0]                      ; 8 steps
        d: 0x1800 [2*0 1*0 1*0 1*0 4*0] ping(1, 4)          ; 8 steps
        loops: loops=2,1,1,4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.0578032 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [4*4 3*256 3*1280 2*2560 16*16]            ; 1152 steps
        b: 0x8200 [4*4 2*512 16*16]                         ; 128 words, 512 B
        c: 0x400 [36*4 2*0 1*0 1*0 16*0] ping(3, 144)       ; 1152 steps
        d: 0x1800 [36*0 1*0 1*0 32*0] ping(3, 4)            ; 1152 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=36,1,2,1,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0xb lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [2*4 5*40 6*240 2*40 5*8]                  ; 600 steps
        b: 0x8200 [2*4 2*40 5*8]                            ; 20 words, 80 B
        c: 0x400 [60*4 2*0 1*0 1*0 5*0] ping(3, 240)        ; 600 steps
        d: 0x1800 [60*0 1*0 1*0 10*0] ping(3, 4)            ; 600 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=60,1,2,1,5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=379 zero_point_step=3 zero_point_base=376
        output: block_level=4 reduction=0xb lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [3*4 4*48 3*336 2*144 4*12]                ; 288 steps
        b: 0x8200 [3*4 2*48 4*12]                           ; 24 words, 96 B
        c: 0x400 [36*4 2*0 1*0 1*0 4*0] ping(3, 144)        ; 288 steps
        d: 0x1800 [36*0 1*0 1*0 8*0] ping(3, 4)             ; 288 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=36,1,2,1,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=330 zero_point_step=2 zero_point_base=328
        output: block_level=4 reduction=0xb lanes_last=12 lanes=12 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [3*192 3*1728 3*384 3*3456 48*4]           ; 3888 steps
        b: 0x8200 [1*4 3*192 3*768 48*4]                    ; 432 words, 1728 B
        c: 0x400 [9*4 9*0 3*36 16*0]                        ; 3888 steps
        d: 0x1800 [9*0 9*0 48*0] ping(1, 4)                 ; 3888 steps
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,3,3,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [8*32 2*720 2*16 2*240 4*4]                ; 256 steps
        b: 0x8200 [3*32 2*16 2*128 4*4]                     ; 48 words, 192 B
        c: 0x400 [16*4 4*0 1*0 4*64]                        ; 256 steps
        d: 0x1800 [16*0 1*0 16*0] ping(1, 4)                ; 256 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=16,1,1,4,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=12 lanes=12 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [4*12 3*72 2*24 5*216 3*4]                 ; 360 steps
        b: 0x8200 [20*12 1*0 1*0 3*4]                       ; 60 words, 240 B
        c: 0x400 [12*4 10*0 1*0 3*48]                       ; 360 steps
        d: 0x1800 [12*0 1*0 30*0] ping(1, 4)                ; 360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,10,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=3 zero_point_base=292
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*32 4*160 2*32 3*320 8*4]                ; 576 steps
        b: 0x8200 [2*96 2*32 3*192 8*4]                     ; 96 words, 384 B
        c: 0x400 [12*4 6*0 1*0 8*48]                        ; 576 steps
        d: 0x1800 [12*0 1*0 48*0] ping(1, 4)                ; 576 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,6,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=366 zero_point_step=2 zero_point_base=352
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*4 2*68 4*680 3*68 6*12]                 ; 432 steps
        b: 0x8200 [3*4 3*68 1*0 6*12] part(3, 2)            ; 51 words, 204 B
        c: 0x400 [24*4 3*0 1*0 6*96]                        ; 432 steps
        d: 0x1800 [24*0 1*0 18*0] ping(1, 4)                ; 432 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=24,1,1,3,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=12 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*16 3*64 2*16 5*64 4*4]                  ; 360 steps
        b: 0x8200 [5*4 2*76 5*228 4*20] part(3, 4)          ; 190 words, 760 B
        c: 0x400 [9*4 10*0 1*0 4*36]                        ; 360 steps
        d: 0x1800 [9*0 1*0 40*0] ping(1, 4)                 ; 360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=9,1,1,10,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=301 zero_point_step=3 zero_point_base=292
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*4 3*72 2*504 3*144 6*12]                ; 324 steps
        b: 0x8200 [12*4 3*276 1*0 6*48] part(3, 9)          ; 207 words, 828 B
        c: 0x400 [18*4 3*0 1*0 6*72]                        ; 324 steps
        d: 0x1800 [18*0 1*0 18*0] ping(1, 4)                ; 324 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=18,1,1,3,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=374 zero_point_step=2 zero_point_base=364
        output: block_level=4 reduction=0x7 lanes_last=36 lanes=48 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [6*12 32*84 2*12 2*336 3*4]                ; 2304 steps
        b: 0x8200 [4*24 2*12 2*96 3*4] part(3, 4)           ; 48 words, 192 B
        c: 0x400 [192*4 4*0 1*0 3*0] ping(3, 768)           ; 2304 steps
        d: 0x1800 [192*0 1*0 12*0] ping(1, 4)               ; 2304 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=192,1,1,4,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=16 scale=0.000420084 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [2*12 2*48 3*4 9*48 2*0]                   ; 216 steps
        b: 0x8200 [16*4 9*208 1*0 2*64] part(3, 10)         ; 234 words, 936 B
        c: 0x400 [12*4 9*0 1*0 2*0] ping(3, 48)             ; 216 steps
        d: 0x1800 [12*0 1*0 18*0] ping(1, 4)                ; 216 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,9,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=282 zero_point_step=2 zero_point_base=280
        output: block_level=4 reduction=0x7 lanes_last=40 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [5*8 3*88 3*24 6*88 2*4]                   ; 540 steps
        b: 0x8200 [4*4 9*32 6*416 2*16] part(3, 4)          ; 432 words, 1728 B
        c: 0x400 [15*4 18*0 1*0 2*0] ping(3, 60)            ; 540 steps
        d: 0x1800 [15*0 1*0 36*0] ping(1, 4)                ; 540 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=15,1,1,18,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=286
        output: block_level=4 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [2*4 4*164 8*2460 3*820 21*8]              ; 4032 steps
        b: 0x8200 [2*4 2*2952 3*984 21*8] part(3, 1)        ; 246 words, 984 B
        c: 0x400 [64*4 3*0 1*0 21*0] ping(3, 256)           ; 4032 steps
        d: 0x1800 [64*0 1*0 63*0] ping(1, 4)                ; 4032 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=64,1,1,3,21
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=386 zero_point_step=2 zero_point_base=384
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=16 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [6*64 3*640 2*256 4*640 16*4]              ; 2304 steps
        b: 0x8200 [4*4 4*256 2*1024 4*2048 16*16]           ; 2048 words, 8192 B
        c: 0x400 [18*4 8*0 4*72 4*0]                        ; 2304 steps
        d: 0x1800 [18*0 8*0 16*0] ping(1, 4)                ; 2304 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,3,2,4,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=337 zero_point_step=3 zero_point_base=328
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [8*48 6*624 3*96 2*624 12*4]               ; 3456 steps
        b: 0x8200 [1*4 2*48 3*96 2*432 12*4]                ; 144 words, 576 B
        c: 0x400 [48*4 6*0 3*192 4*0]                       ; 3456 steps
        d: 0x1800 [48*0 6*0 12*0] ping(1, 4)                ; 3456 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=8,6,3,2,12
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*12 5*156 5*24 5*624 3*4]                ; 1125 steps
        b: 0x8200 [4*4 2*240 5*48 5*480 3*16]               ; 600 words, 2400 B
        c: 0x400 [15*4 25*0 1*0 3*0] ping(2, 60)            ; 1125 steps
        d: 0x1800 [15*0 25*0 3*0] ping(1, 4)                ; 1125 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,5,5,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=286
        output: block_level=4 reduction=0x3 lanes_last=32 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@3
        a: 0x100 [6*8 6*144 4*32 4*576 2*4]                 ; 1152 steps
        b: 0x8200 [4*8 4*128 4*32 4*512 2*4]                ; 512 words, 2048 B
        c: 0x400 [36*4 16*0 1*0 1*0 2*0] ping(3, 144)       ; 1152 steps
        d: 0x1800 [36*0 1*0 1*0 32*0] ping(3, 4)            ; 1152 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=36,1,16,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0xb lanes_last=64 lanes=64 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@3
        a: 0x100 [7*12 8*168 3*48 5*672 3*4]                ; 2520 steps
        b: 0x8200 [4*12 4*156 3*48 5*624 3*4]               ; 720 words, 2880 B
        c: 0x400 [56*4 15*0 1*0 1*0 3*0] ping(3, 224)       ; 2520 steps
        d: 0x1800 [56*0 1*0 1*0 45*0] ping(3, 4)            ; 2520 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=56,1,15,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=371 zero_point_step=3 zero_point_base=368
        output: block_level=4 reduction=0xb lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*20 5*100 3*20 2*200 5*4]                ; 450 steps
        b: 0x8200 [2*4 2*108 3*36 2*216 5*8] part(4, 1)     ; 108 words, 432 B
        c: 0x400 [15*4 6*0 5*60]                            ; 450 steps
        d: 0x1800 [15*0 6*0 5*0] ping(1, 4)                 ; 450 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,3,2,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=16 scale=0.0015029382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [4*32 6*320 4*64 2*1280 8*4]               ; 1536 steps
        b: 0x8200 [1*4 2*32 4*256 4*64 2*1024 8*4]          ; 512 words, 2048 B
        c: 0x400 [24*4 8*0 8*96]                            ; 1536 steps
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
        c: 0x400 [30*4 8*0 8*120]                           ; 1920 steps
        d: 0x1800 [30*0 8*0 8*0] ping(1, 4)                 ; 1920 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,5,2,4,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=517 zero_point_step=3 zero_point_base=496
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*192 5*2112 3*576 3*6336 48*4]           ; 10800 steps
        b: 0x8200 [1*4 3*192 3*1728 3*576 3*5184 48*4]      ; 3888 words, 15552 B
        c: 0x400 [25*4 9*0 3*100 16*0]                      ; 10800 steps
        d: 0x1800 [25*0 9*0 48*0] ping(1, 4)                ; 10800 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,5,3,3,48
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=36 lanes=36 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [6*8 7*632 7*32 6*2528 2*4]                ; 3528 steps
        b: 0x8200 [1*4 4*8 4*248 7*32 6*992 2*4]            ; 1344 words, 5376 B
        c: 0x400 [42*4 42*0 1*0 2*0] ping(2, 168)           ; 3528 steps
        d: 0x1800 [42*0 42*0 2*0] ping(1, 4)                ; 3528 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,7,7,6,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=342 zero_point_step=2 zero_point_base=340
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [7*24 5*2040 16*120 2*6120 6*4]            ; 6720 steps
        b: 0x8200 [1*4 5*24 3*2040 16*120 2*6120 6*4]       ; 2880 words, 11520 B
        c: 0x400 [35*4 32*0 1*0 6*0] ping(2, 140)           ; 6720 steps
        d: 0x1800 [35*0 32*0 6*0] ping(1, 4)                ; 6720 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=7,5,16,2,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=329 zero_point_step=3 zero_point_base=326
        output: block_level=4 reduction=0x3 lanes_last=60 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@3
        a: 0x100 [4*28 4*308 4*56 2*616 7*4]                ; 896 steps
        b: 0x8200 [4*4 2*100 2*3300 4*200 2*6600 7*16] part(5, 1); 800 words, 3200 B
        c: 0x400 [16*4 8*0 1*0 7*64]                        ; 896 steps
        d: 0x1800 [16*0 1*0 56*0] ping(1, 4)                ; 896 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=16,1,1,8,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=64 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [4*4 3*128 3*512 2*128 2*512 8*16]         ; 1152 steps
        b: 0x8200 [4*4 4*128 8*16]                          ; 128 words, 512 B
        c: 0x400 [36*4 4*0 1*0 8*0] ping(3, 144)            ; 1152 steps
        d: 0x1800 [36*0 1*0 32*0] ping(1, 4)                ; 1152 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=36,1,1,4,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [8*4 3*256 3*1024 2*256 3*1024 8*32]       ; 3456 steps
        b: 0x8200 [8*4 6*256 8*32]                          ; 384 words, 1536 B
        c: 0x400 [72*4 6*0 1*0 8*0] ping(3, 288)            ; 3456 steps
        d: 0x1800 [72*0 1*0 48*0] ping(1, 4)                ; 3456 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=72,1,1,6,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=403 zero_point_step=3 zero_point_base=400
        output: block_level=4 reduction=0x7 lanes_last=32 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*12 3*132 8*12 3*396 3*4 3*0]            ; 1944 steps
        b: 0x8200 [16*4 8*160 3*1920 3*64] part(3, 8)       ; 960 words, 3840 B
        c: 0x400 [9*4 24*0 1*0 1*0 9*0] ping(3, 36)         ; 1944 steps
        d: 0x1800 [9*0 24*4 1*0 9*0]                        ; 1944 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=9,1,24,3,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0xb lanes_last=32 lanes=64 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@3
        a: 0x100 [2*4 4*128 6*1280 4*256 2*5120 16*8]       ; 6144 steps
        b: 0x8200 [2*4 2*128 4*1024 4*256 2*4096 16*8]      ; 2048 words, 8192 B
        c: 0x400 [48*4 8*0 1*0 16*0] ping(3, 192)           ; 6144 steps
        d: 0x1800 [48*0 1*0 128*0] ping(1, 4)               ; 6144 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=48,1,1,8,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=64 lanes=64 scale=0.000840168 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*52 5*624 1*4 1*52 1*208 13*4]           ; 260 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [20*4 1*0 13*0] ping(2, 80)                ; 260 steps
        d: 0x1800 [260*0] ping(1, 4)                        ; 260 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,5,1,1,1,13
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=2 zero_point_base=296
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=331 zero_point_step=3 zero_point_base=328
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*56 7*112 2*4 1*56 1*112 7*8]            ; 98 steps
        b: 0x8200 [2*4 1*8 1*24 1*64]                       ; 2 words, 8 B
        c: 0x400 [14*4 1*0 7*56]                            ; 98 steps
        d: 0x1800 [98*0] ping(1, 4)                         ; 98 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,7,2,1,1,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.0005879951 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*36 3*288 1*4 1*12 1*96 3*4]             ; 27 steps
        b: 0x8200 [6*4 1*24 1*48 1*64]                      ; 6 words, 24 B
        c: 0x400 [9*4 1*0 3*36]                             ; 27 steps
        d: 0x1800 [27*0] ping(1, 4)                         ; 27 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,1,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=24 lanes=24 scale=0.001120224 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*32 2*64 1*4 1*32 1*64 8*4]              ; 32 steps
        b: 0x8200 [3*4 1*24 1*24 1*64]                      ; 3 words, 12 B
        c: 0x400 [4*4 1*0 8*16]                             ; 32 steps
        d: 0x1800 [32*0] ping(1, 4)                         ; 32 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,2,1,1,1,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=290 zero_point_step=2 zero_point_base=288
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*32 2*256 1*4 1*96 1*768 8*4]            ; 80 steps
        b: 0x8200 [2*4 1*8 1*16 1*64]                       ; 2 words, 8 B
        c: 0x400 [10*4 1*0 4*40 2*0]                        ; 80 steps
        d: 0x1800 [80*0] ping(1, 4)                         ; 80 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,1,1,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=2 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*56 7*112 2*4 2*56 1*112 7*8]            ; 196 steps
        b: 0x8200 [2*4 2*8 1*24 1*64]                       ; 4 words, 16 B
        c: 0x400 [14*4 2*0 7*56]                            ; 196 steps
        d: 0x1800 [14*0 2*4 7*0]                            ; 196 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=1,7,2,2,1,7
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.0015556888 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*36 3*288 1*4 2*12 1*96 3*4]             ; 54 steps
        b: 0x8200 [6*4 2*24 1*48 1*64]                      ; 12 words, 48 B
        c: 0x400 [9*4 2*0 3*36]                             ; 54 steps
        d: 0x1800 [9*0 2*4 3*0]                             ; 54 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,2,1,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=24 lanes=24 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*24 2*168 1*4 3*24 1*168 6*4]            ; 144 steps
        b: 0x8200 [2*4 3*8 1*40 1*64]                       ; 6 words, 24 B
        c: 0x400 [8*4 3*0 6*32]                             ; 144 steps
        d: 0x1800 [8*0 3*4 6*0]                             ; 144 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,2,1,3,1,6
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=307 zero_point_step=3 zero_point_base=304
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*48 3*240 1*4 2*48 1*240 12*4]           ; 216 steps
        b: 0x8200 [9*4 2*36 1*108 1*64]                     ; 18 words, 72 B
        c: 0x400 [9*4 2*0 4*36 3*0]                         ; 216 steps
        d: 0x1800 [9*0 2*4 12*0]                            ; 216 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=3,3,1,2,1,12
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=36 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*32 3*224 1*4 4*32 1*224 8*4]            ; 288 steps
        b: 0x8200 [3*4 4*12 1*60 1*64]                      ; 12 words, 48 B
        c: 0x400 [9*4 4*0 4*36 2*0]                         ; 288 steps
        d: 0x1800 [9*0 4*4 8*0]                             ; 288 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,4,1,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*32 2*256 1*4 2*96 1*768 8*4]            ; 160 steps
        b: 0x8200 [2*4 2*8 1*16 1*64]                       ; 4 words, 16 B
        c: 0x400 [10*4 2*0 4*40 2*0]                        ; 160 steps
        d: 0x1800 [10*0 2*4 8*0]                            ; 160 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,2,1,8
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=2 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*36 3*168 1*4 1*12 2*84 3*4]             ; 54 steps
        b: 0x8200 [3*4 1*12 2*36 1*64]                      ; 6 words, 24 B
        c: 0x400 [9*4 2*0 3*36]                             ; 54 steps
        d: 0x1800 [9*0 2*4 3*0]                             ; 54 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,2,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*12 3*48 1*4 1*12 4*48 3*4]              ; 108 steps
        b: 0x8200 [2*4 1*8 4*32 1*64]                       ; 8 words, 32 B
        c: 0x400 [9*4 4*0 3*36]                             ; 108 steps
        d: 0x1800 [9*0 4*4 3*0]                             ; 108 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,4,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=286 zero_point_step=3 zero_point_base=283
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [7*16 6*256 1*4 4*32 3*768 4*4]            ; 2016 steps
        b: 0x8200 [1*4 4*4 3*20 1*64]                       ; 12 words, 48 B
        c: 0x400 [42*4 12*0 4*0] ping(2, 168)               ; 2016 steps
        d: 0x1800 [42*0 12*4 4*0]                           ; 2016 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=7,6,1,4,3,4
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=0.0008981774 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*56 6*112 1*4 1*112 2*224 14*4]          ; 336 steps
        b: 0x8200 [1*4 1*4 2*4 1*64]                        ; 2 words, 8 B
        c: 0x400 [12*4 2*0 7*48 2*0]                        ; 336 steps
        d: 0x1800 [12*0 2*4 14*0]                           ; 336 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,6,1,1,2,14
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*100 2*500 1*4 1*100 7*500 25*4]         ; 1750 steps
        b: 0x8200 [16*4 1*64 7*64 1*64]                     ; 112 words, 448 B
        c: 0x400 [10*4 7*0 5*40 5*0]                        ; 1750 steps
        d: 0x1800 [10*0 7*4 25*0]                           ; 1750 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,1,7,25
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=309 zero_point_step=3 zero_point_base=306
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*48 4*432 1*4 6*48 2*432 12*4]           ; 1152 steps
        b: 0x8200 [1*4 6*4 2*28 1*64]                       ; 12 words, 48 B
        c: 0x400 [8*4 12*0 3*32 4*0]                        ; 1152 steps
        d: 0x1800 [8*0 12*4 12*0]                           ; 1152 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,4,1,6,2,12
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=280
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=2 zero_point_base=296
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=263 zero_point_step=3 zero_point_base=260
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=259 zero_point_step=2 zero_point_base=257
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*8 2*24 2*4 1*8 6*24 3*0]                ; 144 steps
        b: 0x8200 [16*4 1*136 6*272 3*64] part(3, 2)        ; 204 words, 816 B
        c: 0x400 [8*4 6*0 1*0 3*0] ping(2, 32)              ; 144 steps
        d: 0x1800 [8*0 6*0 3*0] ping(1, 4)                  ; 144 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=2,2,2,1,6,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=64 scale=0.0020579828 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*64 4*384 4*64 2*768 8*8]            ; 1536 steps
        b: 0x8200 [2*4 2*256 4*64 2*512 8*8]                ; 256 words, 1024 B
        c: 0x400 [24*4 8*0 8*96]                            ; 1536 steps
        d: 0x1800 [24*0 8*0 8*0] ping(1, 4)                 ; 1536 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,4,4,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*64 5*576 4*128 3*2304 8*8]          ; 2880 steps
        b: 0x8200 [2*4 2*256 4*64 3*512 8*8]                ; 384 words, 1536 B
        c: 0x400 [30*4 12*0 8*120]                          ; 2880 steps
        d: 0x1800 [30*0 12*0 8*0] ping(1, 4)                ; 2880 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,5,4,3,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=517 zero_point_step=3 zero_point_base=496
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 3*512 4*3072 3*512 2*6144 64*8]       ; 9216 steps
        b: 0x8200 [2*4 2*2048 3*512 2*4096 64*8]            ; 1536 words, 6144 B
        c: 0x400 [24*4 6*0 4*96 16*0]                       ; 9216 steps
        d: 0x1800 [24*0 6*0 64*0] ping(1, 4)                ; 9216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,4,3,2,64
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 3*576 4*3456 3*576 2*6912 36*16]      ; 10368 steps
        b: 0x8200 [4*4 2*2304 3*576 2*4608 36*16]           ; 1728 words, 6912 B
        c: 0x400 [48*4 6*0 3*192 12*0]                      ; 10368 steps
        d: 0x1800 [48*0 6*0 36*0] ping(1, 4)                ; 10368 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,4,3,2,36
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 3*256 5*2304 3*512 2*9216 16*16]      ; 5760 steps
        b: 0x8200 [4*4 2*1024 3*256 2*2048 16*16]           ; 768 words, 3072 B
        c: 0x400 [60*4 6*0 1*0 16*0] ping(2, 240)           ; 5760 steps
        d: 0x1800 [60*0 6*0 16*0] ping(1, 4)                ; 5760 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,5,3,2,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=0.0007514691 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 3*128 5*768 4*128 2*2304 8*16]        ; 3840 steps
        b: 0x8200 [4*4 3*512 4*128 2*1536 8*16]             ; 768 words, 3072 B
        c: 0x400 [60*4 8*0 1*0 8*0] ping(2, 240)            ; 3840 steps
        d: 0x1800 [60*0 8*0 8*0] ping(1, 4)                 ; 3840 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,5,4,2,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=379 zero_point_step=3 zero_point_base=376
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [5*4 3*512 4*3072 3*512 2*6144 26*20]      ; 9360 steps
        b: 0x8200 [5*4 2*2048 3*512 2*4096 26*20] part(4, 3); 1536 words, 6144 B
        c: 0x400 [60*4 6*0 1*0 26*0] ping(2, 240)           ; 9360 steps
        d: 0x1800 [60*0 6*0 26*0] ping(1, 4)                ; 9360 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=5,3,4,3,2,26
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=24 lanes=40 scale=0.0007514691 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 3*164 8*656 2*164 3*1312 14*12]       ; 6048 steps
        b: 0x8200 [3*4 2*328 2*164 3*656 14*12] part(4, 2)  ; 492 words, 1968 B
        c: 0x400 [72*4 6*0 1*0 14*0] ping(2, 288)           ; 6048 steps
        d: 0x1800 [72*0 6*0 14*0] ping(1, 4)                ; 6048 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,3,8,2,3,14
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=403 zero_point_step=3 zero_point_base=400
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [2*4 4*164 8*2460 2*164 3*820 21*8]        ; 8064 steps
        b: 0x8200 [2*4 2*2952 2*164 3*984 21*8] part(4, 1)  ; 492 words, 1968 B
        c: 0x400 [64*4 6*0 1*0 21*0] ping(2, 256)           ; 8064 steps
        d: 0x1800 [64*0 6*0 21*0] ping(1, 4)                ; 8064 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,8,2,3,21
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=386 zero_point_step=2 zero_point_base=384
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=16 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=382 zero_point_step=3 zero_point_base=376
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [11*24 2*512 3*8 2*256 5*512 2*4]          ; 1320 steps
        b: 0x8200 [2*4 6*48 3*16 2*288 5*576 2*8]           ; 720 words, 2880 B
        c: 0x400 [22*4 30*0 1*0 2*0] ping(2, 88)            ; 1320 steps
        d: 0x1800 [22*0 30*0 2*0] ping(1, 4)                ; 1320 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=11,2,3,2,5,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=303 zero_point_step=3 zero_point_base=300
        output: block_level=5 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [3*4 4*384 4*3840 4*768 3*7680 32*12]      ; 18432 steps
        b: 0x8200 [3*4 2*384 2*3072 4*768 3*6144 32*12]     ; 4608 words, 18432 B
        c: 0x400 [48*4 12*0 1*0 32*0] ping(2, 192)          ; 18432 steps
        d: 0x1800 [48*0 12*0 32*0] ping(1, 4)               ; 18432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,4,4,4,3,32
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=355 zero_point_step=3 zero_point_base=352
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
        a: 0x100 [1*160 1*320 8*4 1*160 1*320 5*32 15*0]    ; 600 steps
        b: 0x8200 [16*4 1*960 1*3840 15*64]                 ; 240 words, 960 B
        c: 0x400 [8*4 1*0 5*32 1*0 15*0]                    ; 600 steps
        d: 0x1800 [40*0 1*0 15*0] ping(1, 4)                ; 600 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,1,5,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.00092035794 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 1*320 8*4 1*160 1*320 5*32 15*0]    ; 600 steps
        b: 0x8200 [16*4 1*960 1*3840 15*64]                 ; 240 words, 960 B
        c: 0x400 [8*4 1*0 5*32 1*0 15*0]                    ; 600 steps
        d: 0x1800 [40*0 1*0 15*0] ping(1, 4)                ; 600 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,1,5,15
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*256 1*768 8*4 2*256 2*768 8*32 4*0]     ; 1024 steps
        b: 0x8200 [16*4 2*256 2*1280 4*64]                  ; 256 words, 1024 B
        c: 0x400 [8*4 4*0 8*32 1*0 4*0]                     ; 1024 steps
        d: 0x1800 [8*0 4*4 8*0 4*0]                         ; 1024 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,2,2,8,4
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 1*320 8*4 1*160 2*320 5*32 15*0]    ; 1200 steps
        b: 0x8200 [16*4 1*960 2*3840 15*64]                 ; 480 words, 1920 B
        c: 0x400 [8*4 2*0 5*32 1*0 15*0]                    ; 1200 steps
        d: 0x1800 [8*0 2*4 5*0 15*0]                        ; 1200 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,2,5,15
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*960 1*1920 8*4 1*960 1*1920 30*32 3*0]  ; 720 steps
        b: 0x8200 [16*4 1*160 1*320 3*64] part(3, 8)        ; 40 words, 160 B
        c: 0x400 [8*4 1*0 5*32 6*0 3*0]                     ; 720 steps
        d: 0x1800 [240*0 1*0 3*0] ping(1, 4)                ; 720 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,1,30,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=0.00037573455 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*960 1*1920 8*4 1*960 1*1920 30*32 3*0]  ; 720 steps
        b: 0x8200 [16*4 1*160 1*320 3*64] part(3, 8)        ; 40 words, 160 B
        c: 0x400 [8*4 1*0 5*32 6*0 3*0]                     ; 720 steps
        d: 0x1800 [240*0 1*0 3*0] ping(1, 4)                ; 720 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,1,30,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*64 1*576 4*4 7*64 1*576 4*16 2*0]       ; 448 steps
        b: 0x8200 [16*4 7*240 1*5400 2*64] part(3, 14)      ; 210 words, 840 B
        c: 0x400 [8*4 7*0 4*32 1*0 2*0]                     ; 448 steps
        d: 0x1800 [8*0 7*4 4*0 2*0]                         ; 448 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,1,4,7,1,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=56 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*960 1*1920 8*4 1*960 2*1920 30*32 3*0]  ; 1440 steps
        b: 0x8200 [16*4 1*160 2*320 3*64] part(3, 8)        ; 80 words, 320 B
        c: 0x400 [8*4 2*0 5*32 6*0 3*0]                     ; 1440 steps
        d: 0x1800 [8*0 2*4 30*0 3*0]                        ; 1440 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,2,30,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*16 4*32 1*4 1*16 7*32 4*4 3*0]          ; 672 steps
        b: 0x8200 [16*4 1*420 7*140 3*64] part(3, 3)        ; 245 words, 980 B
        c: 0x400 [8*4 7*0 4*32 1*0 3*0]                     ; 672 steps
        d: 0x1800 [8*0 7*4 4*0 3*0]                         ; 672 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,4,1,1,7,4,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=290 zero_point_step=2 zero_point_base=288
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@7 parameters=@2
        a: 0x100 [4*48 4*1152 3*16 3*96 3*384 6*2304 4*4]   ; 10368 steps
        b: 0x8200 [3*4 2*144 2*2592 3*48 3*288 3*864 6*5184 4*12]; 7776 words, 31104 B
        c: 0x400 [16*4 162*0 1*0 4*0] ping(2, 64)           ; 10368 steps
        d: 0x1800 [16*0 162*0 4*0] ping(1, 4)               ; 10368 steps
        wait: ring_read_b>=-30000+1*i@6
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,4,3,3,3,6,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=291 zero_point_step=3 zero_point_base=288
        output: block_level=6 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [3*12 3*72 3*12 1*0 1*0 1*0 1*0 3*4]       ; 81 steps
        b: 0x8200 [3*12 1*0 1*0 1*0 3*4]                    ; 9 words, 36 B
        c: 0x400 [9*4 3*0 1*0 1*0 1*0 1*0 1*0 3*36]         ; 81 steps
        d: 0x1800 [9*0 1*0 1*0 1*0 1*0 1*0 1*0 9*0] ping(4, 4); 81 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=9,1,1,1,3,1,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
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
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=278 zero_point_step=2 zero_point_base=264
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [6*4 1*24 1*144]                          ; 6 words, 24 B
        c: 0x400 [1*1 1*4 1*1 1*12]                         ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=24 lanes=24 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [16*4 1*176 1*352]                        ; 16 words, 64 B
        c: 0x400 [3*1 1*8 1*3 1*8]                          ; 3 steps
        d: 0x1800 [3*0] ping(1, 4)                          ; 3 steps
        loops: loops=3
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [12*4 1*176 1*352]                        ; 12 words, 48 B
        c: 0x400 [3*1 1*8 1*3 1*8]                          ; 3 steps
        d: 0x1800 [3*0] ping(1, 4)                          ; 3 steps
        loops: loops=3
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=48 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400 [1*1 2*4 1*2 1*8]                          ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [16*4 1*176 1*352]                        ; 16 words, 64 B
        c: 0x400 [3*1 2*8 1*3 1*8]                          ; 6 steps
        d: 0x1800 [6*0] ping(1, 4)                          ; 6 steps
        loops: loops=3,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

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
        b: 0x8200 [1*4 1*4 2*12]                            ; 2 words, 8 B
        c: 0x400 [1*1 1*4 1*2 2*4]                          ; 2 steps
        d: 0x1800 [1*0 1*0 2*0] ping(1, 4)                  ; 2 steps
        loops: loops=1,1,1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    mesh_eastward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 2*25 8*125 2*16] part(3, 9)   ; 400 words, 1600 B

    mesh_northward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 1*99 3*16] part(3, 1)    ; 33 words, 132 B

    mesh_westward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 3*99 3*16] part(3, 1)    ; 99 words, 396 B

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
        narrow: 0x40 [4*6 6*1 1*24]                         ; 24 words, 96 B
        wide: 0x600 [1*1]                                   ; 1 row, 256 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=1
        narrow: 0x40 [16*1 4*16]                            ; 64 words, 256 B
        wide: 0x600 [4*0] ping(0, 1)                        ; 4 rows, 1024 B
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

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 transpose=bytes pack_level=2
        narrow: 0x40 [4*1 1*1 2*4]                          ; 8 words, 32 B
        wide: 0x600 [2*1]                                   ; 2 rows, 512 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [16*1 2*128 8*16]                      ; 256 words, 1024 B
        wide: 0x600 [8*0] ping(0, 1)                        ; 8 rows, 2048 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 2*4 5*8]                          ; 40 words, 160 B
        wide: 0x600 [2*1 5*2]                               ; 10 rows, 2560 B
        wait: avdata>=-30000+1*i@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=3
        narrow: 0x40 [16*1 1*25 4*25 2*16] part(3, 9)       ; 100 words, 400 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write

    ring_consume_a tiles=r1c1 ring_read=@0
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: wide_to_narrow>=-30000+64*i@0

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x604 [9*1 4*9 8*0]                           ; 288 rows, 73728 B
        prefix: level=0 base=0x600 words=1 end=0x603 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [1*1] ping(1, 1)                        ; 1 row, 256 B
        prefix: level=0 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x606 [9*1 3*9]                               ; 27 rows, 6912 B
        prefix: level=2 base=0x600 words=3 end=0x605 step=3
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x605 [6*1 5*6 4*0]                           ; 120 rows, 30720 B
        prefix: level=0 base=0x600 words=1 end=0x604 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [9*1 4*9 2*0]                           ; 72 rows, 18432 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x600 [4*1 5*4 3*0]                           ; 60 rows, 15360 B
        wait: parameters>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1] ping(1, 1)                        ; 1 row, 256 B
        narrow: 0x2080 [4*1] ping(1, 4) part(1, 1)          ; 1 word, 4 B
        prefix: level=1 base=0x2080 words=3 end=0x2082 step=0
        wait: ring_read_a>=-30000+1*i@1
        wait: avdata>=-30000+1*i@1 write

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [8*1]                                   ; 8 rows, 2048 B
        narrow: 0x2080 [5*1 10*5 10*55]                     ; 500 words, 2000 B
        wait: ring_read_a>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [2*1 1*32]                              ; 2 rows, 512 B
        narrow: 0x2080 [8*1 5*8 3*160 1*1440]               ; 120 words, 480 B
        wait: ring_read_a>=0@2

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=1
        wide: 0x100 [6*0] ping(0, 1)                        ; 6 rows, 1536 B
        narrow: 0x2080 [16*1 6*16]                          ; 96 words, 384 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@1 pack_level=1
        wide: 0x100 [3*0] ping(0, 1)                        ; 3 rows, 768 B
        narrow: 0x2080 [4*1 3*4]                            ; 12 words, 48 B
        wait: ring_read_a>=-30000+1*i@0

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=3
        wide: 0x100 [1*1 2*16]                              ; 2 rows, 512 B
        narrow: 0x2080 [16*1 1*16 1*112 2*784]              ; 32 words, 128 B
        wait: ring_read_a>=0@2

    wide_to_narrow tiles=r1c1 wide_to_narrow=@2 to_scaling pack_level=1
        wide: 0x100 [1*1 3*1 8*0]                           ; 24 rows, 6144 B
        narrow: 0x40 [32*1 1*64 24*0] ping(2, 32)           ; 768 entries, 6144 B
        wait: ring_read_b>=-30000+1*i@1
        wait: avdata>=-30000+1*i@2 write
