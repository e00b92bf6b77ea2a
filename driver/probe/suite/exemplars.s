; Written by python -m benchmarks.probe_forms: instructions that probes put to a device.

    infeed infed=@0 destination=r1c1 row_words=64
        buffer: 0 [1024*1] ping(1, 1024)                    ; 1024 steps
        wait: parameter_pop>=1+1*i@0

    infeed infed=@0 destination=r1c1 row_words=64
        buffer: 0 [1024*1 2*0] ping(1, 1024)                ; 2048 steps
        wait: parameter_pop>=1+1*i@0

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
        a: 0x100 [1*0 1*0 1*4 1*4]                          ; 1 step
        b: 0x8200 [1*4 1*4 1*4]                             ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: narrow_to_wide>=0@4
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

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*4 1*256 1*4 1*512 1*32768]              ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [1*4] ping(2, 4)                           ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0058208546 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
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
        a: 0x100 [1*0 1*4 1*64]                             ; 1 step
        b: 0x8200 [2*4 1*8 1*128]                           ; 2 words, 8 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.4959596 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*4 1*16] ping(4, 32)             ; 1 step
        b: 0x8200 [1*4 1*4 1*4 1*8]                         ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: wide_to_narrow>=-30000+8*i@4
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=1 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3
        a: 0x100 [1*1 1*4 1*1 1*1] ping(4, 16)              ; 1 step
        b: 0x8200 [1*4 1*4 1*12 1*192]                      ; 1 word, 4 B
        c: 0x400                                            ; 1 step
        d: 0x1800 ping(1, 4)                                ; 1 step
        wait: wide_to_narrow>=-30000+4*i@4
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
        a: 0x100 [2*0 1*4 1*64]                             ; 2 steps
        b: 0x8200 [1*4 1*64]                                ; 1 word, 4 B
        c: 0x400 [2*4]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        wait: narrow_to_wide>=0@4
        loops: loops=2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [2*4 1*24 1*4 1*4 1*72]                    ; 2 steps
        b: 0x8200 [1*4 1*4 1*12]                            ; 1 word, 4 B
        c: 0x400 [2*0]                                      ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*4 1*16 1*4 1*16 1*16]                   ; 4 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [4*4] ping(2, 16)                          ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0029104273 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [7*4 1*28]                                 ; 7 steps
        b: 0x8200 [14*4 1*56]                               ; 14 words, 56 B
        c: 0x400 [7*4] ping(2, 28)                          ; 7 steps
        d: 0x1800 [7*0] ping(1, 4)                          ; 7 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@1
        loops: loops=7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=266 zero_point_step=3 zero_point_base=263
        output: block_level=1 reduction=0x1 lanes_last=56 lanes=56 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [129*4]                                    ; 129 steps
        b: 0x8200 [1*0 129*4]                               ; 129 words, 516 B
        c: 0x400 [43*4 3*0] ping(1, 172)                    ; 129 steps
        d: 0x1800 [1*0 129*0] ping(1, 4)                    ; 129 steps
        wait: narrow_to_wide>=-30000+1*i@1
        loops: loops=43,3
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

    mac tiles=r1c1 avdata=@2 parameters=@2
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

    mac tiles=r1c1 avdata=@2 parameters=@2
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

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*12 4*104 1*4 1*4 1*52]                  ; 20 steps
        b: 0x8200 [1*4 1*4 1*4 1*64]                        ; 1 word, 4 B
        c: 0x400 [20*4] ping(2, 80)                         ; 20 steps
        d: 0x1800 [20*0] ping(1, 4)                         ; 20 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=5,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0013015827 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*4 3*12 1*4 1*4 1*12]                    ; 9 steps
        b: 0x8200 [2*4 1*8 1*8 1*64]                        ; 2 words, 8 B
        c: 0x400 [9*4] ping(2, 36)                          ; 9 steps
        d: 0x1800 [9*0] ping(1, 4)                          ; 9 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x110 [2*-16 2*4 1*8 1*8]                        ; 4 steps
        b: 0x8200 [2*4 1*8 1*8]                             ; 2 words, 8 B
        c: 0x400 [2*4 2*0]                                  ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        wait: narrow_to_wide>=0@4
        loops: loops=2,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@1
        a: 0x100 [18*4 10*96]                               ; 180 steps
        b: 0x8200 [180*4]                                   ; 180 words, 720 B
        c: 0x400 [18*4 10*0] ping(1, 72)                    ; 180 steps
        d: 0x1800 [180*0] ping(0, 4)                        ; 180 steps
        wait: narrow_to_wide>=-30000+1*i@1
        loops: loops=18,10
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
        a: 0x100 [4*32 8*4]                                 ; 32 steps
        b: 0x8200 [3*4]                                     ; 3 words, 12 B
        c: 0x400 [16*4 2*0] ping(1, 64)                     ; 32 steps
        d: 0x1800 [1*0 32*0]                                ; 32 steps
        wait: ring_read_b>=-30000+1*i@1
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=16,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=290 zero_point_step=2 zero_point_base=288
        output: block_level=2 reduction=0x3 lanes_last=12 lanes=12 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 11*4]                                 ; 11 steps
        b: 0x8200 [11*4]                                    ; 11 words, 44 B
        c: 0x400 [1*0 11*4 1*44 1*44] ping(4, 44)           ; 11 steps
        d: 0x1800 [1*0 11*0] ping(1, 4)                     ; 11 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,11
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@1
        a: 0x100 [1*0 1*0 7956*4]                           ; 7956 steps
        b: 0x8200 [3*4]                                     ; 3 words, 12 B
        c: 0x400 [52*4 153*0] ping(1, 208)                  ; 7956 steps
        d: 0x1800 [1*0 7956*0]                              ; 7956 steps
        wait: ring_read_b>=-30000+1*i@1
        loops: loops=52,153
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x3 lanes_last=12 lanes=12 scale=6.525884e-05 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [2*4 2*28 4*4 2*28]                        ; 32 steps
        b: 0x8200 [4*4 2*16]                                ; 8 words, 32 B
        c: 0x400 [4*4 8*0]                                  ; 32 steps
        d: 0x1800 [4*0 8*0] ping(1, 4)                      ; 32 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=4,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@0 parameters=@2
        a: 0x100 [1*0 1*0 1*0 1*0 4*4]                      ; 4 steps
        b: 0x8200 [2*4]                                     ; 2 words, 8 B
        c: 0x400 [2*4 2*0] ping(2, 8)                       ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [4*4 1*0 1*0 1*0 2*20]                     ; 8 steps
        b: 0x8200 [2*4 2*8]                                 ; 4 words, 16 B
        c: 0x400 [2*4 4*0] ping(2, 8)                       ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [1*0 1*0 1*0 1*0 3*4]                      ; 3 steps
        b: 0x8200 [2*4 3*8]                                 ; 6 words, 24 B
        c: 0x400 [1*0 3*0] ping(2, 4)                       ; 3 steps
        d: 0x1800 [1*0 3*0] ping(1, 4)                      ; 3 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=260 zero_point_step=3 zero_point_base=257
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [2*4 3*24 1*0 1*0 3*216]                   ; 18 steps
        b: 0x8200 [36*4 3*144]                              ; 108 words, 432 B
        c: 0x400 [2*4 9*0] ping(2, 8)                       ; 18 steps
        d: 0x1800 [2*0 9*0] ping(1, 4)                      ; 18 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,9
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=260 zero_point_step=2 zero_point_base=258
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [11*4 2*60 2*16 1*0 5*60]                  ; 220 steps
        b: 0x8200 [5*4 2*16 5*36]                           ; 50 words, 200 B
        c: 0x400 [22*4 10*0] ping(2, -85)                   ; 220 steps
        d: 0x1800 [22*0 10*0] ping(1, 4)                    ; 220 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=22,10
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=20 scale=0.0012410104 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 4*32 3*8 1*0 5*64]                    ; 240 steps
        b: 0x8200 [6*4 2*96 3*24 5*192]                     ; 180 words, 720 B
        c: 0x400 [16*4 15*0] ping(2, -61)                   ; 240 steps
        d: 0x1800 [16*0 15*0] ping(1, 4)                    ; 240 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=16,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [44*4 4*400 3*112 1*0 28*800]              ; 14784 steps
        b: 0x8200 [7*4 2*96 3*28 28*192]                    ; 1176 words, 4704 B
        c: 0x400 [176*4 84*0] ping(2, -701)                 ; 14784 steps
        d: 0x1800 [176*0 84*0] ping(1, 4)                   ; 14784 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=176,84
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=432 zero_point_step=3 zero_point_base=432
        output: block_level=2 reduction=0x1 lanes_last=56 lanes=56 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 8*24 2*12 1*0 4*48]                   ; 192 steps
        b: 0x8200 [4*4 2*32 2*16 4*64]                      ; 64 words, 256 B
        c: 0x400 [24*4 8*0] ping(2, -93)                    ; 192 steps
        d: 0x1800 [24*0 8*0] ping(1, 4)                     ; 192 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=24,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=280 zero_point_step=2 zero_point_base=280
        output: block_level=2 reduction=0x1 lanes_last=32 lanes=32 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
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
        a: 0x100 [3*24 3*72 6*4 1*48 1*144]                 ; 54 steps
        b: 0x8200 [2*4 1*8 1*24 1*64]                       ; 2 words, 8 B
        c: 0x400 [54*4] ping(2, 216)                        ; 54 steps
        d: 0x1800 [54*0] ping(1, 4)                         ; 54 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,3,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.00079211796 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*8 4*16 2*4 1*8 1*16]                    ; 8 steps
        b: 0x8200 [5*4 1*60 1*40 1*64]                      ; 5 words, 20 B
        c: 0x400 [8*4] ping(2, 32)                          ; 8 steps
        d: 0x1800 [8*0] ping(1, 4)                          ; 8 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,4,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=267 zero_point_step=3 zero_point_base=264
        output: block_level=5 reduction=0x7 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [1*0 1*4 3*4 1*12]                         ; 3 steps
        b: 0x8200 [1*4 3*4 1*12]                            ; 3 words, 12 B
        c: 0x400 [1*0 1*4 3*0]                              ; 3 steps
        d: 0x1800 [1*0 1*0 3*0] ping(1, 4)                  ; 3 steps
        wait: narrow_to_wide>=0@1
        loops: loops=1,1,3
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [2*24 1*4 3*4 1*12]                        ; 6 steps
        b: 0x8200 [1*4 3*4 1*12]                            ; 3 words, 12 B
        c: 0x400 [2*4 1*0 3*0]                              ; 6 steps
        d: 0x1800 [2*0 1*0 3*0] ping(1, 4)                  ; 6 steps
        wait: narrow_to_wide>=0@4
        loops: loops=2,1,3
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [8*4 81*384 12*32]                         ; 7776 steps
        b: 0x8200 [9*4 9*36]                                ; 81 words, 324 B
        c: 0x400 [8*4 81*0 12*0] ping(2, 32)                ; 7776 steps
        d: 0x1800 [8*0 81*4 12*0]                           ; 7776 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=8,81,12
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=4 lanes=4 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [21*8 2*112 2*4]                           ; 84 steps
        b: 0x8200 [3*4 2*12]                                ; 6 words, 24 B
        c: 0x400 [21*4 2*0 2*0] ping(2, 84)                 ; 84 steps
        d: 0x1800 [21*0 2*4 2*0]                            ; 84 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=21,2,2
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=301 zero_point_step=3 zero_point_base=298
        output: block_level=3 reduction=0x5 lanes_last=12 lanes=12 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [29*4 8*464 4*116 1*116]                   ; 928 steps
        b: 0x8200 [3*4 2*48 4*12 1*12]                      ; 24 words, 96 B
        c: 0x400 [232*4 4*0 1*928]                          ; 928 steps
        d: 0x1800 [232*0 4*0] ping(1, 4)                    ; 928 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        loops: loops=29,8,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=24 lanes=24 scale=0.00038215783 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [16*4 9*448 7*64 1*64]                     ; 1008 steps
        b: 0x8200 [1*4 7*40 7*4 1*4]                        ; 49 words, 196 B
        c: 0x400 [144*4 7*0 1*576]                          ; 1008 steps
        d: 0x1800 [144*0 7*0] ping(1, 4)                    ; 1008 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        loops: loops=16,9,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=400 zero_point_step=1 zero_point_base=400
        output: block_level=3 reduction=0x3 lanes_last=28 lanes=28 scale=0.0004850712 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 14*16 10*224 1*16]                    ; 560 steps
        b: 0x8200 [1*4 9*4 10*36 1*4]                       ; 90 words, 360 B
        c: 0x400 [56*4 10*0 1*224]                          ; 560 steps
        d: 0x1800 [56*0 10*0] ping(1, 4)                    ; 560 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=4,14,10
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=312 zero_point_step=2 zero_point_base=312
        output: block_level=3 reduction=0x3 lanes_last=36 lanes=36 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [5*4 6*132 7*20]                           ; 210 steps
        b: 0x8200 [5*4 6*132 7*20] part(2, 3)               ; 198 words, 792 B
        c: 0x400 [5*4 6*0 7*20]                             ; 210 steps
        d: 0x1800 [5*0 6*0 7*0] ping(1, 4)                  ; 210 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: ring_read_a>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=5,6,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=309 zero_point_step=3 zero_point_base=291
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [3*4 5*20 3*60 2*0]                        ; 90 steps
        b: 0x8200 [16*4 3*96 2*64] part(2, 8)               ; 72 words, 288 B
        c: 0x400 [15*4 3*0 2*0] ping(2, 60)                 ; 90 steps
        d: 0x1800 [15*0 1*0 6*0] ping(1, 4)                 ; 90 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=15,3,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=32 lanes=64 scale=0.0015029382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [49*28 1*0 1*0 7*4]                        ; 343 steps
        b: 0x8200 [4*4 3*112 7*672 7*16]                    ; 588 words, 2352 B
        c: 0x400 [7*4 7*0 7*28]                             ; 343 steps
        d: 0x1800 [7*0 1*0 49*0] ping(1, 4)                 ; 343 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=7,7,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=48 lanes=48 scale=0.0022000764 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [17*384 18*16 3*4224 4*4]                  ; 3672 steps
        b: 0x8200 [11*288 18*16 3*3168 4*4]                 ; 2376 words, 9504 B
        c: 0x400 [17*4 54*0 4*0] ping(2, 68)                ; 3672 steps
        d: 0x1800 [17*0 1*0 216*0] ping(1, 4)               ; 3672 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=17,54,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=293 zero_point_step=3 zero_point_base=290
        output: block_level=2 reduction=0x1 lanes_last=44 lanes=44 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*8 8*72 4*8 2*4]                         ; 384 steps
        b: 0x8200 [2*32 4*8 1*0 2*4]                        ; 16 words, 64 B
        c: 0x400 [48*4 4*0 2*0] ping(2, 192)                ; 384 steps
        d: 0x1800 [48*0 1*0 8*0] ping(1, 4)                 ; 384 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=48,4,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=354 zero_point_step=2 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*0 1*0 1*0 10*4]                         ; 10 steps
        b: 0x8200 [10*4 1*0 1*0 5*40] part(3, 5)            ; 45 words, 180 B
        c: 0x400 [2*4 1*0 5*8]                              ; 10 steps
        d: 0x1800 [2*0 1*0 5*0] ping(1, 4)                  ; 10 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,1,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=40 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*36 1*0 5*8]                         ; 30 steps
        b: 0x8200 [6*4 3*108 1*0 5*24] part(3, 3)           ; 81 words, 324 B
        c: 0x400 [2*4 3*0 5*8]                              ; 30 steps
        d: 0x1800 [2*0 1*0 15*0] ping(1, 4)                 ; 30 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,3,5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=278 zero_point_step=3 zero_point_base=266
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=24 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*4 2*164 6*820 7*24]                     ; 504 steps
        b: 0x8200 [6*4 2*164 6*656 7*24] part(3, 5)         ; 492 words, 1968 B
        c: 0x400 [6*4 12*0 7*24]                            ; 504 steps
        d: 0x1800 [6*0 1*0 84*0] ping(1, 4)                 ; 504 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=6,12,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=310 zero_point_step=2 zero_point_base=298
        output: block_level=2 reduction=0x1 lanes_last=20 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [54*4 1*0 1*0 2*0]                         ; 108 steps
        b: 0x8200 [16*4 9*76 3*684 2*64] part(3, 3)         ; 513 words, 2052 B
        c: 0x400 [2*4 27*0 2*0] ping(2, 8)                  ; 108 steps
        d: 0x1800 [2*0 1*0 54*0] ping(1, 4)                 ; 108 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=2,27,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=12 lanes=64 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [2*4 3*16 1*0 2*0]                         ; 12 steps
        b: 0x8200 [16*4 2*88 3*176 2*64] part(3, 6)         ; 132 words, 528 B
        c: 0x400 [6*0 1*0 2*0] ping(2, 4)                   ; 12 steps
        d: 0x1800 [1*0 1*0 12*0] ping(1, 4)                 ; 12 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=1,6,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=261 zero_point_step=3 zero_point_base=258
        output: block_level=2 reduction=0x1 lanes_last=24 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [36*76 1*0 1*0 19*4]                       ; 684 steps
        b: 0x8200 [5*4 1*0 1*0 19*20] part(3, 4)            ; 94 words, 376 B
        c: 0x400 [36*4 1*0 19*0] ping(2, 144)               ; 684 steps
        d: 0x1800 [36*0 1*0 19*0] ping(1, 4)                ; 684 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=36,1,19
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=331 zero_point_step=3 zero_point_base=328
        output: block_level=2 reduction=0x1 lanes_last=16 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 24*52 4*208 7*8]                      ; 1344 steps
        b: 0x8200 [2*4 4*156 1*0 7*8] part(3, 1)            ; 52 words, 208 B
        c: 0x400 [48*4 4*0 7*0] ping(2, 192)                ; 1344 steps
        d: 0x1800 [48*0 1*0 28*0] ping(1, 4)                ; 1344 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@2
        loops: loops=48,4,7
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=354 zero_point_step=2 zero_point_base=352
        output: block_level=2 reduction=0x1 lanes_last=4 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*16 3*312 7*8 7*104 2*4]                 ; 882 steps
        b: 0x8200 [1*0 784*4]                               ; 784 words, 3136 B
        c: 0x400 [9*4 49*0 2*0] ping(2, 36)                 ; 882 steps
        d: 0x1800 [9*0 49*4 2*0]                            ; 882 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=9,49,2
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=277 zero_point_step=3 zero_point_base=274
        output: block_level=3 reduction=0x5 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*12 5*120 7*12 10*120 3*4]               ; 4200 steps
        b: 0x8200 [7*4 10*48]                               ; 70 words, 280 B
        c: 0x400 [20*4 70*0 3*0] ping(2, 80)                ; 4200 steps
        d: 0x1800 [20*0 70*4 3*0]                           ; 4200 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=20,70,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=299 zero_point_step=3 zero_point_base=296
        output: block_level=3 reduction=0x5 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*12 3*96 2*36 1*0 3*4]                   ; 54 steps
        b: 0x8200 [2*4 2*24 3*8] part(2, 2)                 ; 12 words, 48 B
        c: 0x400 [9*4 2*0 3*36]                             ; 54 steps
        d: 0x1800 [9*0 1*0 6*0] ping(1, 4)                  ; 54 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=9,2,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=8 lanes=8 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [110*4 1*0 1*0 1*0 2*0]                    ; 220 steps
        b: 0x8200 [16*4 2*92 5*184 2*64] part(3, 7)         ; 230 words, 920 B
        c: 0x400 [11*4 10*0 2*44]                           ; 220 steps
        d: 0x1800 [11*0 1*0 20*0] ping(1, 4)                ; 220 steps
        wait: ring_read_b>=-30000+1*i@2
        loops: loops=11,10,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=2 reduction=0x1 lanes_last=28 lanes=64 scale=0.0017550538 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@0 parameters=@2
        a: 0x100 [18*8 4*24 1*0 1*0 1*0 2*4]                ; 144 steps
        b: 0x8200 [4*4]                                     ; 4 words, 16 B
        c: 0x400 [18*4 4*0 2*0] ping(2, 72)                 ; 144 steps
        d: 0x1800 [18*0 4*4 2*0]                            ; 144 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=18,4,2
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=294 zero_point_step=2 zero_point_base=292
        output: block_level=3 reduction=0x5 lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [4*16 2*192 2*8 2*64 1*0 2*4]              ; 64 steps
        b: 0x8200 [30*4 2*120]                              ; 60 words, 240 B
        c: 0x400 [8*4 4*0 2*0] ping(2, 32)                  ; 64 steps
        d: 0x1800 [8*0 4*4 2*0]                             ; 64 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=8,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=60 lanes=60 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*64 1*448 16*4 7*64 1*448]               ; 112 steps
        b: 0x8200 [2*4 7*8 1*56 1*64]                       ; 14 words, 56 B
        c: 0x400 [16*4 7*0] ping(2, 64)                     ; 112 steps
        d: 0x1800 [16*0 7*0] ping(1, 4)                     ; 112 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@6
        loops: loops=1,1,16,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 4*16 1*4 2*8 1*16]                    ; 16 steps
        b: 0x8200 [14*4 2*56 1*112 1*64]                    ; 28 words, 112 B
        c: 0x400 [8*4 2*0] ping(2, 32)                      ; 16 steps
        d: 0x1800 [8*0 2*0] ping(1, 4)                      ; 16 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,4,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=56 lanes=56 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*44 1*4 3*12 1*88]                   ; 27 steps
        b: 0x8200 [2*4 3*8 1*120 1*64]                      ; 6 words, 24 B
        c: 0x400 [9*4 3*0] ping(2, 36)                      ; 27 steps
        d: 0x1800 [9*0 3*0] ping(1, 4)                      ; 27 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,3,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=268 zero_point_step=3 zero_point_base=265
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 4*16 1*4 2*8 1*16]                    ; 16 steps
        b: 0x8200 [14*4 2*56 1*112 1*64]                    ; 28 words, 112 B
        c: 0x400 [8*4 2*0] ping(2, 32)                      ; 16 steps
        d: 0x1800 [8*0 2*0] ping(1, 4)                      ; 16 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,4,1,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=56 lanes=56 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*44 1*4 3*12 1*88]                   ; 27 steps
        b: 0x8200 [2*4 3*8 1*120 1*64]                      ; 6 words, 24 B
        c: 0x400 [9*4 3*0] ping(2, 36)                      ; 27 steps
        d: 0x1800 [9*0 3*0] ping(1, 4)                      ; 27 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,3,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=268 zero_point_step=3 zero_point_base=265
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*8 3*32 2*4 4*8 1*32]                    ; 24 steps
        b: 0x8200 [1*4 4*4 1*16 1*64]                       ; 4 words, 16 B
        c: 0x400 [6*4 4*0] ping(2, 24)                      ; 24 steps
        d: 0x1800 [6*0 4*0] ping(1, 4)                      ; 24 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        loops: loops=1,3,2,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=265 zero_point_step=3 zero_point_base=262
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*8 3*32 2*4 4*8 1*32]                    ; 24 steps
        b: 0x8200 [1*4 4*4 1*16 1*64]                       ; 4 words, 16 B
        c: 0x400 [6*4 4*0] ping(2, 24)                      ; 24 steps
        d: 0x1800 [6*0 4*0] ping(1, 4)                      ; 24 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        loops: loops=1,3,2,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=265 zero_point_step=3 zero_point_base=262
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [4*4 3*128 3*384 8*16]                     ; 288 steps
        b: 0x8200 [4*4 8*16]                                ; 32 words, 128 B
        c: 0x400 [36*4 1*0 8*144]                           ; 288 steps
        d: 0x1800 [36*0 1*0 8*0] ping(1, 4)                 ; 288 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=4,3,3,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x7 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [2*4 3*24 3*72 3*8]                        ; 54 steps
        b: 0x8200 [2*4 3*8]                                 ; 6 words, 24 B
        c: 0x400 [18*4 1*0 3*72]                            ; 54 steps
        d: 0x1800 [18*0 1*0 3*0] ping(1, 4)                 ; 54 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=2,3,3,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=316 zero_point_step=3 zero_point_base=310
        output: block_level=3 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [8*4 3*256 3*768 8*32]                     ; 576 steps
        b: 0x8200 [8*4 8*32]                                ; 64 words, 256 B
        c: 0x400 [72*4 1*0 1*0 8*0] ping(2, 288)            ; 576 steps
        d: 0x1800 [72*0 1*0 8*0] ping(1, 4)                 ; 576 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=8,3,3,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x7 lanes_last=32 lanes=32 scale=0.0006859943 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@1 parameters=@2
        a: 0x100 [16*4 3*512 3*1536 8*64]                   ; 1152 steps
        b: 0x8200 [16*4 8*64]                               ; 128 words, 512 B
        c: 0x400 [144*4 1*0 1*0 8*0] ping(2, 576)           ; 1152 steps
        d: 0x1800 [144*0 1*0 8*0] ping(1, 4)                ; 1152 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=16,3,3,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=547 zero_point_step=3 zero_point_base=544
        output: block_level=3 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 6*8 11*48 2*240 1*8]                  ; 264 steps
        b: 0x8200 [1*4 5*4 2*20 1*4]                        ; 10 words, 40 B
        c: 0x400 [132*4 2*0 1*528]                          ; 264 steps
        d: 0x1800 [132*0 2*0] ping(1, 4)                    ; 264 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        loops: loops=2,6,11,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=20 lanes=20 scale=0.00050664035 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 8*12 3*96 5*192 1*12]                 ; 360 steps
        b: 0x8200 [1*4 6*4 5*24 1*4]                        ; 30 words, 120 B
        c: 0x400 [72*4 5*0 1*288]                           ; 360 steps
        d: 0x1800 [72*0 5*0] ping(1, 4)                     ; 360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,8,3,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=24 lanes=24 scale=0.0006859943 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*12 5*72 3*12 3*4]                       ; 180 steps
        b: 0x8200 [1*4 3*12 3*4]                            ; 9 words, 36 B
        c: 0x400 [20*4 3*0 3*80]                            ; 180 steps
        d: 0x1800 [20*0 3*0 3*0] ping(1, 4)                 ; 180 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=4,5,3,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=4 scale=0.0013015827 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [2*16 1*4 1*4 2*4]                         ; 4 steps
        b: 0x8200 [1*4 1*4 2*4]                             ; 2 words, 8 B
        c: 0x400 [2*4 1*0 1*0 2*0]                          ; 4 steps
        d: 0x1800 [2*0 1*0 1*0 2*0] ping(1, 4)              ; 4 steps
        wait: narrow_to_wide>=0@4
        loops: loops=2,1,1,2
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0041159657 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 parameters=@4
        a: 0x100 [1*0 1*4 1*4 3*4]                          ; 3 steps
        b: 0x8200 [1*4 1*4 3*4]                             ; 3 words, 12 B
        c: 0x400 [1*0 1*4 1*4 3*4] ping(4, 12)              ; 3 steps
        d: 0x1800 [1*0 1*0 1*0 3*0] ping(1, 4)              ; 3 steps
        wait: narrow_to_wide>=-30000+1*i@4
        loops: loops=1,1,1,3
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*12 5*84 3*84 3*4]                       ; 315 steps
        b: 0x8200 [2*4 3*20 3*8] part(2, 1)                 ; 15 words, 60 B
        c: 0x400 [35*4 3*0 3*140]                           ; 315 steps
        d: 0x1800 [35*0 3*0 3*0] ping(1, 4)                 ; 315 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=7,5,3,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=367 zero_point_step=3 zero_point_base=361
        output: block_level=3 reduction=0x3 lanes_last=4 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 5*228 28*8 14*912 1*4]                ; 5880 steps
        b: 0x8200 [8*4 2*960 28*32 14*1920 1*32]            ; 6272 words, 25088 B
        c: 0x400 [15*4 392*0 1*60]                          ; 5880 steps
        d: 0x1800 [15*0 392*0] ping(1, 4)                   ; 5880 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=3,5,28,14
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0015029382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 5*228 28*8 14*912 1*4]                ; 5880 steps
        b: 0x8200 [8*4 2*960 28*32 14*1920 1*32]            ; 6272 words, 25088 B
        c: 0x400 [15*4 392*0 1*60]                          ; 5880 steps
        d: 0x1800 [15*0 392*0] ping(1, 4)                   ; 5880 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=3,5,28,14
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=271 zero_point_step=3 zero_point_base=271
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@3
        a: 0x100 [2*4 6*32 4*8 5*64]                        ; 240 steps
        b: 0x8200 [8*4 2*128 4*32 5*256]                    ; 320 words, 1280 B
        c: 0x400 [12*4 1*0 20*0]                            ; 240 steps
        d: 0x1800 [12*0 20*0] ping(1, 4)                    ; 240 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,20
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=64 lanes=64 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*12 8*168 5*24 3*4]                      ; 720 steps
        b: 0x8200 [1*4 2*84 5*12 3*4]                       ; 30 words, 120 B
        c: 0x400 [48*4 5*0 3*192]                           ; 720 steps
        d: 0x1800 [48*0 5*0 3*0] ping(1, 4)                 ; 720 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=6,8,5,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=3 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*256 5*1280 3*256 64*4]                  ; 2880 steps
        b: 0x8200 [1*4 3*768 3*256 64*4]                    ; 576 words, 2304 B
        c: 0x400 [15*4 3*0 8*60 8*0]                        ; 2880 steps
        d: 0x1800 [15*0 3*0 64*0] ping(1, 4)                ; 2880 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=3,5,3,64
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=12 lanes=12 scale=0.0015029382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 4*240 3*960 15*16]                    ; 720 steps
        b: 0x8200 [4*4 4*240 3*960 15*16]                   ; 720 words, 2880 B
        c: 0x400 [4*4 12*0 5*16 3*0]                        ; 720 steps
        d: 0x1800 [4*0 12*0 15*0] ping(1, 4)                ; 720 steps
        wait: ring_read_b>=-30000+1*i@3
        loops: loops=4,4,3,15
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x1 lanes_last=16 lanes=16 scale=0.0029104273 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*12 36*84 2*12 3*4]                      ; 1296 steps
        b: 0x8200 [1*4 8*24 2*12 3*4]                       ; 48 words, 192 B
        c: 0x400 [216*4 2*0 1*0 3*0] ping(2, 864)           ; 1296 steps
        d: 0x1800 [216*0 2*0 3*0] ping(1, 4)                ; 1296 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=6,36,2,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=32 lanes=32 scale=0.00039605898 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*20 4*100 5*100 5*4]                     ; 500 steps
        b: 0x8200 [2*4 3*36 5*108 5*8] part(3, 1)           ; 135 words, 540 B
        c: 0x400 [20*4 5*0 5*80]                            ; 500 steps
        d: 0x1800 [20*0 5*0 5*0] ping(1, 4)                 ; 500 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=5,4,5,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=12 lanes=24 scale=0.0013015827 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 7*80 5*160 10*8]                      ; 700 steps
        b: 0x8200 [8*4 2*316 5*632 10*32] part(3, 7)        ; 790 words, 3160 B
        c: 0x400 [14*4 5*0 5*56 2*0]                        ; 700 steps
        d: 0x1800 [14*0 5*0 10*0] ping(1, 4)                ; 700 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=2,7,5,10
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=56 lanes=64 scale=0.0015556888 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [8*4 64*128 4*32 2*0]                      ; 4096 steps
        b: 0x8200 [16*4 8*80 8*640 2*64] part(3, 4)         ; 1280 words, 5120 B
        c: 0x400 [8*4 64*0 1*0 8*0] ping(2, 32)             ; 4096 steps
        d: 0x1800 [8*0 64*4 1*0 8*0]                        ; 4096 steps
        wait: ring_read_b>=-30000+1*i@2
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=8,64,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=3 reduction=0x5 lanes_last=16 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*4 6*72 4*16 4*288 1*4]                  ; 576 steps
        b: 0x8200 [1*4 4*4 4*64 4*16 4*256 1*4]             ; 256 words, 1024 B
        c: 0x400 [36*4 16*0 1*144]                          ; 576 steps
        d: 0x1800 [36*0 16*0] ping(1, 4)                    ; 576 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_north_in>=-30000+1*i@5
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=6,6,4,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [8*4 10*88 8*8 4*352 1*4]                  ; 2560 steps
        b: 0x8200 [2*4 2*8 4*128 8*16 4*512 1*8]            ; 512 words, 2048 B
        c: 0x400 [80*4 32*0 1*320]                          ; 2560 steps
        d: 0x1800 [80*0 32*0] ping(1, 4)                    ; 2560 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_north_in>=-30000+1*i@5
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=8,10,8,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=336 zero_point_step=2 zero_point_base=336
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.00065079133 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*4 5*164 10*16 10*656 1*4]               ; 2500 steps
        b: 0x8200 [4*4 2*16 2*352 10*32 10*704 1*16]        ; 1600 words, 6400 B
        c: 0x400 [25*4 100*0 1*100]                         ; 2500 steps
        d: 0x1800 [25*0 100*0] ping(1, 4)                   ; 2500 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=5,5,10,10
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*4 5*132 8*16 8*528 1*4]                 ; 1600 steps
        b: 0x8200 [2*4 2*8 2*144 8*16 8*288 1*8]            ; 512 words, 2048 B
        c: 0x400 [25*4 64*0 1*100]                          ; 1600 steps
        d: 0x1800 [25*0 64*0] ping(1, 4)                    ; 1600 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=5,5,8,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=32 lanes=32 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [5*8 7*64 2*320 2*4]                       ; 140 steps
        b: 0x8200 [1*4 3*8 5*24 2*120 2*4]                  ; 60 words, 240 B
        c: 0x400 [35*4 2*0 1*0 2*0] ping(2, 140)            ; 140 steps
        d: 0x1800 [35*0 2*0 2*0] ping(1, 4)                 ; 140 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: ring_read_a>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@3
        loops: loops=5,7,2,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=329 zero_point_step=3 zero_point_base=326
        output: block_level=3 reduction=0x3 lanes_last=60 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1
        a: 0x100 [4*4 1*0 1*0 1*0 8*48]                     ; 32 steps
        b: 0x8200 [1*0 1*0 8*64]                            ; 8 words, 32 B
        c: 0x400 [4*2 1*0 1*0 1*0 8*0]                      ; 32 steps
        d: 0x1800 [4*0 1*0 1*0 1*0 8*0] ping(1, 4)          ; 32 steps
        loops: loops=4,1,1,8
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
        a: 0x100 [2*24 1*0 1*0 1*0 5*4]                     ; 10 steps
        b: 0x8200 [1*0 1*0 10*4]                            ; 10 words, 40 B
        c: 0x400 [2*4 1*0 1*0 1*0 5*0]                      ; 10 steps
        d: 0x1800 [2*0 1*0 1*0 1*0 5*0] ping(1, 4)          ; 10 steps
        loops: loops=2,1,1,5
        operands: accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x1 lanes_last=4 lanes=4 output16 scale=1.0578032 maximum=32767 minimum=-32768 output_zero_point=32768

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*16 6*256 4*4 5*32 4*768]                ; 3360 steps
        b: 0x8200 [1*4 5*4 4*20 1*64]                       ; 20 words, 80 B
        c: 0x400 [168*4 20*0] ping(2, 672)                  ; 3360 steps
        d: 0x1800 [168*0 20*0] ping(1, 4)                   ; 3360 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=7,6,4,5,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0004490887 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*64 3*2176 16*4 32*64 3*2176]            ; 13824 steps
        b: 0x8200 [16*4 32*64 3*2048 1*64]                  ; 1536 words, 6144 B
        c: 0x400 [144*4 96*0] ping(2, 576)                  ; 13824 steps
        d: 0x1800 [144*0 96*0] ping(1, 4)                   ; 13824 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,3,16,32,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=403 zero_point_step=3 zero_point_base=400
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*12 5*80 1*4 4*4 9*40]                   ; 540 steps
        b: 0x8200 [16*4 4*64 9*256 1*64]                    ; 576 words, 2304 B
        c: 0x400 [15*4 36*0] ping(2, 60)                    ; 540 steps
        d: 0x1800 [15*0 36*0] ping(1, 4)                    ; 540 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,5,1,4,9
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=273 zero_point_step=2 zero_point_base=271
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [5*4 1*20 1*4 1*8 4*20]                    ; 20 steps
        b: 0x8200 [1*4 1*4 4*4 1*64]                        ; 4 words, 16 B
        c: 0x400 [5*4 4*0] ping(2, 20)                      ; 20 steps
        d: 0x1800 [5*0 4*0] ping(1, 4)                      ; 20 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=5,1,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0026031653 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [5*4 1*20 1*4 1*8 4*20]                    ; 20 steps
        b: 0x8200 [1*4 1*4 4*4 1*64]                        ; 4 words, 16 B
        c: 0x400 [5*4 4*0] ping(2, 20)                      ; 20 steps
        d: 0x1800 [5*0 4*0] ping(1, 4)                      ; 20 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=5,1,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0026031653 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*4 7*4 1*4 1*4 6*4]                      ; 42 steps
        b: 0x8200 [1*4 1*4 6*4 1*64]                        ; 6 words, 24 B
        c: 0x400 [7*4 6*0] ping(2, 28)                      ; 42 steps
        d: 0x1800 [7*0 6*0] ping(1, 4)                      ; 42 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        loops: loops=1,7,1,1,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=265 zero_point_step=2 zero_point_base=263
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0022000764 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*4 1*4 1*4 1*4 9*4]                      ; 9 steps
        b: 0x8200 [11*4 1*44 9*44 1*64]                     ; 99 words, 396 B
        c: 0x400 [1*4 9*0] ping(2, 4)                       ; 9 steps
        d: 0x1800 [1*0 9*0] ping(1, 4)                      ; 9 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        loops: loops=1,1,1,1,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*8 6*24 2*4 2*8 9*24]                    ; 432 steps
        b: 0x8200 [11*4 2*44 9*352 1*64]                    ; 198 words, 792 B
        c: 0x400 [24*4 18*0] ping(2, 96)                    ; 432 steps
        d: 0x1800 [24*0 18*0] ping(1, 4)                    ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,6,2,2,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=0.001188177 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*4 3*24 1*4 4*4 6*24]                    ; 216 steps
        b: 0x8200 [12*4 4*48 6*192 1*64]                    ; 288 words, 1152 B
        c: 0x400 [9*4 24*0] ping(2, 36)                     ; 216 steps
        d: 0x1800 [9*0 24*0] ping(1, 4)                     ; 216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=3,3,1,4,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=268 zero_point_step=3 zero_point_base=265
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*8 6*24 2*4 2*8 9*24]                    ; 432 steps
        b: 0x8200 [11*4 2*44 9*352 1*64]                    ; 198 words, 792 B
        c: 0x400 [24*4 18*0] ping(2, 96)                    ; 432 steps
        d: 0x1800 [24*0 18*0] ping(1, 4)                    ; 432 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,6,2,2,9
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=0.001188177 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*40 1*4 9*4 4*40]                    ; 216 steps
        b: 0x8200 [3*4 9*12 4*132 1*64]                     ; 108 words, 432 B
        c: 0x400 [6*4 36*0] ping(2, 24)                     ; 216 steps
        d: 0x1800 [6*0 36*0] ping(1, 4)                     ; 216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,3,1,9,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=12 lanes=12 scale=0.002376354 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*84 1*224 7*4 1*28 6*112]                ; 84 steps
        b: 0x8200 [2*4 1*8 6*24 1*64]                       ; 12 words, 48 B
        c: 0x400 [14*4 6*0] ping(2, 56)                     ; 84 steps
        d: 0x1800 [14*0 6*0] ping(1, 4)                     ; 84 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,1,7,1,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0015556888 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 1*28 1*4 2*12 2*56]                   ; 8 steps
        b: 0x8200 [1*4 2*4 2*12 1*64]                       ; 4 words, 16 B
        c: 0x400 [2*4 4*0] ping(2, 8)                       ; 8 steps
        d: 0x1800 [2*0 4*0] ping(1, 4)                      ; 8 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=2,1,1,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.0041159657 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 5*8 1*4 2*4 4*8]                      ; 40 steps
        b: 0x8200 [11*4 2*44 4*132 1*64]                    ; 88 words, 352 B
        c: 0x400 [5*4 8*0] ping(2, 20)                      ; 40 steps
        d: 0x1800 [5*0 8*0] ping(1, 4)                      ; 40 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        loops: loops=1,5,1,2,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=0.0026031653 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 5*8 1*4 2*4 4*8]                      ; 40 steps
        b: 0x8200 [11*4 2*44 4*132 1*64]                    ; 88 words, 352 B
        c: 0x400 [5*4 8*0] ping(2, 20)                      ; 40 steps
        d: 0x1800 [5*0 8*0] ping(1, 4)                      ; 40 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        loops: loops=1,5,1,2,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=44 lanes=44 scale=0.0026031653 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*16 1*4 1*12 5*16]                   ; 5 steps
        b: 0x8200 [14*4 1*56 5*112 1*64]                    ; 70 words, 280 B
        c: 0x400 [1*4 5*0] ping(2, 4)                       ; 5 steps
        d: 0x1800 [1*0 5*0] ping(1, 4)                      ; 5 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        loops: loops=1,1,1,1,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=56 lanes=56 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*16 1*4 1*12 5*16]                   ; 5 steps
        b: 0x8200 [14*4 1*56 5*112 1*64]                    ; 70 words, 280 B
        c: 0x400 [1*4 5*0] ping(2, 4)                       ; 5 steps
        d: 0x1800 [1*0 5*0] ping(1, 4)                      ; 5 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_south_in>=-30000+1*i@6
        loops: loops=1,1,1,1,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=56 lanes=56 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*12 1*60 3*4 5*12 3*120]                 ; 45 steps
        b: 0x8200 [2*4 5*8 3*40 1*64]                       ; 30 words, 120 B
        c: 0x400 [3*4 15*0] ping(2, 12)                     ; 45 steps
        d: 0x1800 [3*0 15*0] ping(1, 4)                     ; 45 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@6
        loops: loops=1,1,3,5,3
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.003360672 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*52 5*624 13*4 1*52 2*208]               ; 520 steps
        b: 0x8200 [1*4 1*4 2*4 1*64]                        ; 2 words, 8 B
        c: 0x400 [260*4 2*0] ping(2, 1040)                  ; 520 steps
        d: 0x1800 [260*0 2*0] ping(1, 4)                    ; 520 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,5,13,1,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=518 zero_point_step=2 zero_point_base=516
        output: block_level=5 reduction=0x7 lanes_last=4 lanes=4 scale=0.00036099408 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*4 3*112 3*336 3*1008 7*16]              ; 756 steps
        b: 0x8200 [4*4 3*224 7*16]                          ; 84 words, 336 B
        c: 0x400 [36*4 3*0 7*144]                           ; 756 steps
        d: 0x1800 [36*0 3*0 7*0] ping(1, 4)                 ; 756 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=4,3,3,3,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [2*4 5*40 6*240 2*40 5*8]                  ; 600 steps
        b: 0x8200 [2*4 2*40 5*8]                            ; 20 words, 80 B
        c: 0x400 [60*4 2*0 5*240]                           ; 600 steps
        d: 0x1800 [60*0 2*0 5*0] ping(1, 4)                 ; 600 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=2,5,6,2,5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=568 zero_point_step=3 zero_point_base=556
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [2*4 4*48 3*336 2*144 6*8]                 ; 288 steps
        b: 0x8200 [2*4 2*48 6*8]                            ; 24 words, 96 B
        c: 0x400 [24*4 2*0 6*96]                            ; 288 steps
        d: 0x1800 [24*0 2*0 6*0] ping(1, 4)                 ; 288 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=2,4,3,2,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=410 zero_point_step=2 zero_point_base=400
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [8*4 3*256 3*768 2*1536 8*32]              ; 1152 steps
        b: 0x8200 [8*4 2*256 8*32]                          ; 128 words, 512 B
        c: 0x400 [72*4 2*0 1*0 8*0] ping(2, 288)            ; 1152 steps
        d: 0x1800 [72*0 2*0 8*0] ping(1, 4)                 ; 1152 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=8,3,3,2,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=403 zero_point_step=3 zero_point_base=400
        output: block_level=4 reduction=0x7 lanes_last=32 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*4 2*76 8*152 2*152 5*16]                ; 640 steps
        b: 0x8200 [8*4 2*152 5*32] part(2, 6)               ; 76 words, 304 B
        c: 0x400 [64*4 2*0 5*256]                           ; 640 steps
        d: 0x1800 [64*0 2*0 5*0] ping(1, 4)                 ; 640 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=4,2,8,2,5
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=588 zero_point_step=3 zero_point_base=576
        output: block_level=4 reduction=0x7 lanes_last=24 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*4 3*72 2*504 3*144 6*12]                ; 324 steps
        b: 0x8200 [12*4 3*276 6*48] part(2, 9)              ; 207 words, 828 B
        c: 0x400 [18*4 3*0 6*72]                            ; 324 steps
        d: 0x1800 [18*0 3*0 6*0] ping(1, 4)                 ; 324 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,2,3,6
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=374 zero_point_step=2 zero_point_base=364
        output: block_level=4 reduction=0x7 lanes_last=36 lanes=48 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [13*4 3*512 3*1536 2*1536 10*52]           ; 2340 steps
        b: 0x8200 [13*4 2*512 10*52] part(2, 11)            ; 256 words, 1024 B
        c: 0x400 [117*4 2*0 1*0 10*0] ping(2, 468)          ; 2340 steps
        d: 0x1800 [117*0 2*0 10*0] ping(1, 4)               ; 2340 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=13,3,3,2,10
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=493 zero_point_step=3 zero_point_base=490
        output: block_level=4 reduction=0x7 lanes_last=44 lanes=52 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [8*4 4*32 3*1088 16*64 3*1088 1*32]        ; 4608 steps
        b: 0x8200 [8*4 2*32 16*64 3*1024 1*32]              ; 768 words, 3072 B
        c: 0x400 [96*4 48*0 1*384]                          ; 4608 steps
        d: 0x1800 [96*0 48*0] ping(1, 4)                    ; 4608 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=8,4,3,16,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=352 zero_point_step=3 zero_point_base=352
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 6*12 7*84 2*12 5*168 1*12]            ; 1260 steps
        b: 0x8200 [8*4 2*128 2*32 5*256 1*32]               ; 160 words, 640 B
        c: 0x400 [126*4 10*0 1*504]                         ; 1260 steps
        d: 0x1800 [126*0 10*0] ping(1, 4)                   ; 1260 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,6,7,2,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=0.00051856297 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*128 3*512 2*128 2*512 32*4]             ; 1152 steps
        b: 0x8200 [1*4 2*128 2*256 32*4]                    ; 128 words, 512 B
        c: 0x400 [9*4 4*0 4*36 8*0]                         ; 1152 steps
        d: 0x1800 [9*0 4*0 32*0] ping(1, 4)                 ; 1152 steps
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,2,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*192 3*1920 4*384 4*3840 48*4]           ; 6912 steps
        b: 0x8200 [1*4 4*192 4*768 48*4]                    ; 768 words, 3072 B
        c: 0x400 [9*4 16*0 3*36 16*0]                       ; 6912 steps
        d: 0x1800 [9*0 16*0 48*0] ping(1, 4)                ; 6912 steps
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,3,4,4,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [4*12 3*72 2*24 5*216 3*4]                 ; 360 steps
        b: 0x8200 [4*12 5*60 1*0 3*4]                       ; 60 words, 240 B
        c: 0x400 [12*4 10*0 1*0 3*48]                       ; 360 steps
        d: 0x1800 [12*0 1*0 30*0] ping(1, 4)                ; 360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,10,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=298 zero_point_step=3 zero_point_base=292
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*32 4*160 3*32 3*320 8*4]                ; 864 steps
        b: 0x8200 [2*96 3*32 3*192 8*4]                     ; 144 words, 576 B
        c: 0x400 [12*4 9*0 1*0 8*48]                        ; 864 steps
        d: 0x1800 [12*0 1*0 72*0] ping(1, 4)                ; 864 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=12,1,1,9,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=366 zero_point_step=2 zero_point_base=352
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [8*4 4*256 3*1024 3*1024 8*32]             ; 2304 steps
        b: 0x8200 [8*4 2*256 3*512 8*32]                    ; 384 words, 1536 B
        c: 0x400 [96*4 3*0 1*0 8*0] ping(2, 384)            ; 2304 steps
        d: 0x1800 [96*0 3*0 8*0] ping(1, 4)                 ; 2304 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=8,4,3,3,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=451 zero_point_step=3 zero_point_base=448
        output: block_level=4 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*4 2*68 4*680 4*68 6*12]                 ; 576 steps
        b: 0x8200 [3*4 4*68 1*0 6*12] part(3, 2)            ; 68 words, 272 B
        c: 0x400 [24*4 4*0 1*0 6*96]                        ; 576 steps
        d: 0x1800 [24*0 1*0 24*0] ping(1, 4)                ; 576 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=24,1,1,4,6
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=8 lanes=12 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 3*256 5*1280 3*256 13*20]             ; 2925 steps
        b: 0x8200 [5*4 3*768 3*256 13*20] part(3, 4)        ; 576 words, 2304 B
        c: 0x400 [75*4 3*0 1*0 13*0] ping(2, 300)           ; 2925 steps
        d: 0x1800 [75*0 3*0 13*0] ping(1, 4)                ; 2925 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,3,5,3,13
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=48 lanes=60 scale=0.0006721344 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [2*36 9*4 2*72 5*180 2*0]                  ; 360 steps
        b: 0x8200 [16*4 2*68 5*136 2*64] part(3, 1)         ; 170 words, 680 B
        c: 0x400 [18*4 10*0 1*0 2*0] ping(3, 72)            ; 360 steps
        d: 0x1800 [18*0 1*0 20*0] ping(1, 4)                ; 360 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=18,1,1,10,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=4 lanes=64 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 7*8 6*88 2*32 3*264 1*8]              ; 504 steps
        b: 0x8200 [1*4 4*4 3*32 2*16 3*96 1*4]              ; 72 words, 288 B
        c: 0x400 [84*4 6*0 1*336]                           ; 504 steps
        d: 0x1800 [84*0 6*0] ping(1, 4)                     ; 504 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        loops: loops=2,7,6,2,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=340 zero_point_step=1 zero_point_base=340
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=0.0006351073 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [27*4 4*108 4*864 3*216 5*1728 1*108]      ; 6480 steps
        b: 0x8200 [3*4 2*12 2*252 3*24 5*504 1*12]          ; 180 words, 720 B
        c: 0x400 [432*4 15*0 1*1728]                        ; 6480 steps
        d: 0x1800 [432*0 15*0] ping(1, 4)                   ; 6480 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=27,4,4,3,5
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=0.000280056 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 6*8 9*80 3*16 2*320 1*8]              ; 648 steps
        b: 0x8200 [2*4 2*8 4*48 3*16 2*192 1*8]             ; 96 words, 384 B
        c: 0x400 [108*4 6*0 1*432]                          ; 648 steps
        d: 0x1800 [108*0 6*0] ping(1, 4)                    ; 648 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,6,9,3,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=364 zero_point_step=3 zero_point_base=364
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [14*4 3*56 5*504 4*112 3*1512 1*56]        ; 2520 steps
        b: 0x8200 [2*4 2*8 3*88 4*16 3*264 1*8]             ; 144 words, 576 B
        c: 0x400 [210*4 12*0 1*840]                         ; 2520 steps
        d: 0x1800 [210*0 12*0] ping(1, 4)                   ; 2520 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=14,3,5,4,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=466 zero_point_step=3 zero_point_base=466
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [9*32 2*720 2*16 3*240 4*4]                ; 432 steps
        b: 0x8200 [1*4 4*32 2*16 3*192 4*4]                 ; 96 words, 384 B
        c: 0x400 [18*4 6*0 4*72]                            ; 432 steps
        d: 0x1800 [18*0 6*0 4*0] ping(1, 4)                 ; 432 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=9,2,2,3,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=16 lanes=16 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [6*64 3*640 2*256 5*640 16*4]              ; 2880 steps
        b: 0x8200 [4*4 4*256 2*1024 5*2048 16*16]           ; 2560 words, 10240 B
        c: 0x400 [18*4 10*0 4*72 4*0]                       ; 2880 steps
        d: 0x1800 [18*0 10*0 16*0] ping(1, 4)               ; 2880 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,3,2,5,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=337 zero_point_step=3 zero_point_base=328
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [8*48 6*624 4*96 2*624 12*4]               ; 4608 steps
        b: 0x8200 [1*4 2*48 4*96 2*432 12*4]                ; 192 words, 768 B
        c: 0x400 [48*4 8*0 3*192 4*0]                       ; 4608 steps
        d: 0x1800 [48*0 8*0 12*0] ping(1, 4)                ; 4608 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=8,6,4,2,12
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=4 reduction=0x3 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [5*8 3*88 3*24 7*88 2*4]                   ; 630 steps
        b: 0x8200 [4*4 3*32 3*96 7*416 2*16]                ; 504 words, 2016 B
        c: 0x400 [15*4 21*0 1*0 2*0] ping(2, 60)            ; 630 steps
        d: 0x1800 [15*0 21*0 2*0] ping(1, 4)                ; 630 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        wait: mesh_north_in>=-30000+1*i@5
        wait: mesh_south_in>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@5
        wait: mesh_east_in>=-30000+1*i@5
        loops: loops=5,3,3,7,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=286
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [6*32 6*960 7*128 7*3840 8*4]              ; 14112 steps
        b: 0x8200 [4*32 4*896 7*128 7*3584 8*4]             ; 6272 words, 25088 B
        c: 0x400 [36*4 49*0 1*0 1*0 8*0] ping(3, 144)       ; 14112 steps
        d: 0x1800 [36*0 1*0 1*0 392*0] ping(3, 4)           ; 14112 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=36,1,49,1,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=331 zero_point_step=3 zero_point_base=328
        output: block_level=4 reduction=0xb lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*16 5*64 2*16 2*192 4*4]                 ; 240 steps
        b: 0x8200 [5*4 3*228 2*76 2*684 4*20] part(4, 4)    ; 228 words, 912 B
        c: 0x400 [15*4 4*0 4*60]                            ; 240 steps
        d: 0x1800 [15*0 4*0 4*0] ping(1, 4)                 ; 240 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=3,5,2,2,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=325 zero_point_step=3 zero_point_base=316
        output: block_level=4 reduction=0x3 lanes_last=48 lanes=60 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*32 6*320 2*128 2*1280 8*4]              ; 1152 steps
        b: 0x8200 [1*4 4*32 4*256 2*128 2*1024 8*4]         ; 512 words, 2048 B
        c: 0x400 [36*4 4*0 8*144]                           ; 1152 steps
        d: 0x1800 [36*0 4*0 8*0] ping(1, 4)                 ; 1152 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,6,2,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*32 5*288 2*128 2*1152 8*4]              ; 800 steps
        b: 0x8200 [1*4 2*32 2*128 2*64 2*256 8*4]           ; 128 words, 512 B
        c: 0x400 [25*4 4*0 8*100]                           ; 800 steps
        d: 0x1800 [25*0 4*0 8*0] ping(1, 4)                 ; 800 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,5,2,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=16 lanes=16 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*32 6*320 2*128 3*1280 8*4]              ; 1728 steps
        b: 0x8200 [1*4 4*32 4*256 2*128 3*1024 8*4]         ; 768 words, 3072 B
        c: 0x400 [36*4 6*0 8*144]                           ; 1728 steps
        d: 0x1800 [36*0 6*0 8*0] ping(1, 4)                 ; 1728 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=6,6,2,3,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=565 zero_point_step=3 zero_point_base=544
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*128 5*896 2*256 2*1792 32*4]            ; 3200 steps
        b: 0x8200 [1*4 3*128 3*640 2*256 2*1280 32*4]       ; 1152 words, 4608 B
        c: 0x400 [25*4 4*0 4*100 8*0]                       ; 3200 steps
        d: 0x1800 [25*0 4*0 32*0] ping(1, 4)                ; 3200 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,5,2,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=36 lanes=36 scale=0.0011641709 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [5*16 9*272 4*64 2*2176 4*4]               ; 1440 steps
        b: 0x8200 [1*4 2*16 4*128 4*32 2*512 4*4]           ; 256 words, 1024 B
        c: 0x400 [45*4 8*0 1*0 4*0] ping(2, 180)            ; 1440 steps
        d: 0x1800 [45*0 8*0 4*0] ping(1, 4)                 ; 1440 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=5,9,4,2,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=32 lanes=32 scale=0.0008677218 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [7*12 8*168 3*48 5*672 3*4]                ; 2520 steps
        b: 0x8200 [1*4 4*12 4*156 3*48 5*624 3*4]           ; 720 words, 2880 B
        c: 0x400 [56*4 15*0 1*0 3*0] ping(2, 224)           ; 2520 steps
        d: 0x1800 [56*0 15*0 3*0] ping(1, 4)                ; 2520 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: ring_read_a>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=7,8,3,5,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=371 zero_point_step=3 zero_point_base=368
        output: block_level=4 reduction=0x3 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [7*16 5*1104 13*80 6*3312 4*4]             ; 10920 steps
        b: 0x8200 [1*4 5*16 3*1120 13*80 6*3360 4*4]        ; 4680 words, 18720 B
        c: 0x400 [35*4 78*0 1*0 4*0] ping(2, 140)           ; 10920 steps
        d: 0x1800 [35*0 78*0 4*0] ping(1, 4)                ; 10920 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=7,5,13,6,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=60 lanes=60 scale=0.000983904 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [6*8 7*648 7*32 6*2592 2*4]                ; 3528 steps
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
        a: 0x100 [7*24 5*2016 16*120 2*6048 6*4]            ; 6720 steps
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
        a: 0x100 [4*28 4*308 5*56 2*616 7*4]                ; 1120 steps
        b: 0x8200 [4*4 2*100 2*3300 5*200 2*6600 7*16] part(5, 1); 1000 words, 4000 B
        c: 0x400 [16*4 10*0 1*0 7*64]                       ; 1120 steps
        d: 0x1800 [16*0 1*0 70*0] ping(1, 4)                ; 1120 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=16,1,1,10,7
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=64 scale=0.0014552136 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@3
        a: 0x100 [2*4 4*104 3*1248 5*208 3*3744 13*8]       ; 4680 steps
        b: 0x8200 [2*4 30*104 13*8]                         ; 780 words, 3120 B
        c: 0x400 [24*4 15*0 1*0 13*0] ping(3, 96)           ; 4680 steps
        d: 0x1800 [24*0 1*0 195*0] ping(1, 4)               ; 4680 steps
        wait: ring_read_b>=-30000+1*i@4
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=24,1,1,15,13
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0x7 lanes_last=16 lanes=16 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@3
        a: 0x100 [3*12 3*132 9*12 4*396 3*4 3*0]            ; 2916 steps
        b: 0x8200 [16*4 9*160 4*1920 3*64] part(3, 8)       ; 1440 words, 5760 B
        c: 0x400 [9*4 36*0 1*0 1*0 9*0] ping(3, 36)         ; 2916 steps
        d: 0x1800 [9*0 36*4 1*0 9*0]                        ; 2916 steps
        wait: ring_read_b>=-30000+1*i@3
        wait: wide_to_scaling>=-30000+1*i@4
        loops: loops=9,1,36,3,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=4 reduction=0xb lanes_last=32 lanes=64 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

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

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*144 2*1008 4*4 1*144 1*1008 9*16]       ; 504 steps
        b: 0x8200 [16*4 1*64 1*64 1*64]                     ; 16 words, 64 B
        c: 0x400 [56*4 1*0 9*0] ping(2, 224)                ; 504 steps
        d: 0x1800 [504*0] ping(1, 4)                        ; 504 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=7,2,4,1,1,9
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=371 zero_point_step=3 zero_point_base=368
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*132 3*396 1*4 1*396 1*1188 33*4]        ; 297 steps
        b: 0x8200 [13*4 1*52 1*52 1*64]                     ; 13 words, 52 B
        c: 0x400 [9*4 1*0 11*36 3*0]                        ; 297 steps
        d: 0x1800 [297*0] ping(1, 4)                        ; 297 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        loops: loops=3,3,1,1,1,33
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=52 lanes=52 scale=0.00033776026 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
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
        a: 0x100 [3*44 3*352 1*4 6*44 1*352 11*4]           ; 594 steps
        b: 0x8200 [2*4 6*8 1*48 1*64]                       ; 12 words, 48 B
        c: 0x400 [9*4 6*0 11*36]                            ; 594 steps
        d: 0x1800 [9*0 6*4 11*0]                            ; 594 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        wait: mesh_north_in>=-30000+1*i@7
        wait: mesh_south_in>=-30000+1*i@7
        wait: mesh_west_in>=-30000+1*i@7
        wait: mesh_east_in>=-30000+1*i@7
        loops: loops=3,3,1,6,1,11
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [7*12 4*156 1*4 3*36 1*312 3*4]            ; 252 steps
        b: 0x8200 [9*4 3*36 1*288 1*64]                     ; 27 words, 108 B
        c: 0x400 [28*4 3*0 3*112]                           ; 252 steps
        d: 0x1800 [28*0 3*4 3*0]                            ; 252 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=7,4,1,3,1,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=343 zero_point_step=3 zero_point_base=340
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=36 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [3*52 3*572 1*4 9*52 1*1144 13*4]          ; 1053 steps
        b: 0x8200 [5*4 9*20 1*180 1*64]                     ; 45 words, 180 B
        c: 0x400 [9*4 9*0 13*36]                            ; 1053 steps
        d: 0x1800 [9*0 9*4 13*0]                            ; 1053 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,9,1,13
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=376 zero_point_step=3 zero_point_base=373
        output: block_level=6 reduction=0x27 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*20 4*160 1*4 2*20 1*320 5*4]            ; 280 steps
        b: 0x8200 [3*4 2*12 1*24 1*64]                      ; 6 words, 24 B
        c: 0x400 [28*4 2*0 5*0] ping(2, 112)                ; 280 steps
        d: 0x1800 [28*0 2*4 5*0]                            ; 280 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=7,4,1,2,1,5
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0011000382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [6*36 6*288 1*4 2*72 1*576 9*4]            ; 648 steps
        b: 0x8200 [1*4 2*4 1*8 1*64]                        ; 2 words, 8 B
        c: 0x400 [36*4 2*0 3*144 3*0]                       ; 648 steps
        d: 0x1800 [36*0 2*4 9*0]                            ; 648 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=6,6,1,2,1,9
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=367 zero_point_step=3 zero_point_base=364
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*48 3*240 1*4 3*48 1*240 12*4]           ; 324 steps
        b: 0x8200 [9*4 3*36 1*108 1*64]                     ; 27 words, 108 B
        c: 0x400 [9*4 3*0 4*36 3*0]                         ; 324 steps
        d: 0x1800 [9*0 3*4 12*0]                            ; 324 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@7
        wait: mesh_south_in>=-30000+1*i@7
        wait: mesh_west_in>=-30000+1*i@7
        wait: mesh_east_in>=-30000+1*i@7
        loops: loops=3,3,1,3,1,12
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=36 scale=0.0019402849 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*24 6*144 1*4 2*24 1*144 6*4]            ; 360 steps
        b: 0x8200 [14*4 2*56 1*112 1*64]                    ; 28 words, 112 B
        c: 0x400 [30*4 2*0 3*120 2*0]                       ; 360 steps
        d: 0x1800 [30*0 2*4 6*0]                            ; 360 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,6,1,2,1,6
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=56 lanes=56 scale=0.0010627378 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 7*960 2*4 3*80 1*320 10*8]          ; 420 steps
        b: 0x8200 [7*4 3*28 1*112 1*64]                     ; 21 words, 84 B
        c: 0x400 [14*4 3*0 5*56 2*0]                        ; 420 steps
        d: 0x1800 [14*0 3*4 10*0]                           ; 420 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,7,2,3,1,10
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=28 lanes=28 scale=0.0015556888 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*12 4*84 1*4 1*36 7*84 3*4]              ; 588 steps
        b: 0x8200 [9*4 1*36 7*36 1*64]                      ; 63 words, 252 B
        c: 0x400 [28*4 7*0 3*112]                           ; 588 steps
        d: 0x1800 [28*0 7*4 3*0]                            ; 588 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        wait: mesh_north_in>=-30000+1*i@7
        wait: mesh_south_in>=-30000+1*i@7
        wait: mesh_west_in>=-30000+1*i@7
        wait: mesh_east_in>=-30000+1*i@7
        loops: loops=7,4,1,1,7,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=36 scale=0.0011000382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [7*12 4*84 1*4 1*36 7*84 3*4]              ; 588 steps
        b: 0x8200 [9*4 1*36 7*36 1*64]                      ; 63 words, 252 B
        c: 0x400 [28*4 7*0 3*112]                           ; 588 steps
        d: 0x1800 [28*0 7*4 3*0]                            ; 588 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        wait: mesh_north_in>=-30000+1*i@7
        wait: mesh_south_in>=-30000+1*i@7
        wait: mesh_east_in>=-30000+1*i@7
        loops: loops=7,4,1,1,7,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=36 lanes=36 scale=0.0011000382 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*60 2*240 3*4 2*60 3*240 5*12]           ; 540 steps
        b: 0x8200 [5*4 2*20 3*40 1*64]                      ; 30 words, 120 B
        c: 0x400 [18*4 6*0 5*72]                            ; 540 steps
        d: 0x1800 [18*0 6*4 5*0]                            ; 540 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,2,3,2,3,5
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=20 lanes=20 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [5*32 2*288 1*4 2*96 2*864 8*4]            ; 320 steps
        b: 0x8200 [2*4 2*8 2*16 1*64]                       ; 8 words, 32 B
        c: 0x400 [10*4 4*0 8*40]                            ; 320 steps
        d: 0x1800 [10*0 4*4 8*0]                            ; 320 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,2,2,8
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=338 zero_point_step=2 zero_point_base=336
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*108 1*540 3*4 1*216 6*540 9*12]         ; 648 steps
        b: 0x8200 [6*4 1*24 6*24 1*64]                      ; 36 words, 144 B
        c: 0x400 [12*4 6*0 9*48]                            ; 648 steps
        d: 0x1800 [12*0 6*4 9*0]                            ; 648 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,1,3,1,6,9
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=24 lanes=24 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*52 3*156 1*4 1*52 4*156 13*4]           ; 468 steps
        b: 0x8200 [2*4 1*8 4*8 1*64]                        ; 8 words, 32 B
        c: 0x400 [9*4 4*0 13*36]                            ; 468 steps
        d: 0x1800 [9*0 4*4 13*0]                            ; 468 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,4,13
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=376 zero_point_step=3 zero_point_base=373
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*36 3*168 1*4 1*12 3*84 3*4]             ; 81 steps
        b: 0x8200 [3*4 1*12 3*36 1*64]                      ; 9 words, 36 B
        c: 0x400 [9*4 3*0 3*36]                             ; 81 steps
        d: 0x1800 [9*0 3*4 3*0]                             ; 81 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,1,3,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [3*12 3*48 1*4 2*12 5*48 3*4]              ; 270 steps
        b: 0x8200 [2*4 2*8 5*32 1*64]                       ; 20 words, 80 B
        c: 0x400 [9*4 10*0 3*36]                            ; 270 steps
        d: 0x1800 [9*0 10*4 3*0]                            ; 270 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,2,5,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=286 zero_point_step=3 zero_point_base=283
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [6*164 5*984 1*4 1*328 2*2952 41*4]        ; 2460 steps
        b: 0x8200 [1*4 1*4 2*4 1*64]                        ; 2 words, 8 B
        c: 0x400 [30*4 2*0 41*0] ping(2, 120)               ; 2460 steps
        d: 0x1800 [30*0 2*4 41*0]                           ; 2460 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=6,5,1,1,2,41
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=319 zero_point_step=3 zero_point_base=316
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [7*44 4*352 1*4 2*44 9*352 11*4]           ; 5544 steps
        b: 0x8200 [10*4 2*40 9*160 1*64]                    ; 180 words, 720 B
        c: 0x400 [28*4 18*0 11*0] ping(2, 112)              ; 5544 steps
        d: 0x1800 [28*0 18*4 11*0]                          ; 5544 steps
        wait: ring_read_b>=-30000+1*i@5
        loops: loops=7,4,1,2,9,11
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=40 lanes=40 scale=0.0011000382 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [4*112 6*672 1*4 1*336 3*2016 28*4]        ; 2016 steps
        b: 0x8200 [2*4 1*8 3*8 1*64]                        ; 6 words, 24 B
        c: 0x400 [24*4 3*0 4*96 7*0]                        ; 2016 steps
        d: 0x1800 [24*0 3*4 28*0]                           ; 2016 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,6,1,1,3,28
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [3*32 3*224 1*4 5*32 2*224 8*4]            ; 720 steps
        b: 0x8200 [3*4 5*12 2*60 1*64]                      ; 30 words, 120 B
        c: 0x400 [9*4 10*0 4*36 2*0]                        ; 720 steps
        d: 0x1800 [9*0 10*4 8*0]                            ; 720 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=3,3,1,5,2,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=12 lanes=12 scale=0.0019402849 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [6*128 4*768 1*4 1*256 3*768 32*4]         ; 2304 steps
        b: 0x8200 [2*4 1*8 3*56 1*64]                       ; 6 words, 24 B
        c: 0x400 [24*4 3*0 4*96 8*0]                        ; 2304 steps
        d: 0x1800 [24*0 3*4 32*0]                           ; 2304 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        wait: mesh_north_in>=-30000+1*i@7
        wait: mesh_south_in>=-30000+1*i@7
        wait: mesh_west_in>=-30000+1*i@7
        wait: mesh_east_in>=-30000+1*i@7
        loops: loops=6,4,1,1,3,32
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=354 zero_point_step=2 zero_point_base=352
        output: block_level=6 reduction=0x27 lanes_last=8 lanes=8 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*40 6*160 1*4 1*40 2*320 10*4]           ; 480 steps
        b: 0x8200 [8*4 1*32 2*32 1*64]                      ; 16 words, 64 B
        c: 0x400 [24*4 2*0 5*96 2*0]                        ; 480 steps
        d: 0x1800 [24*0 2*4 10*0]                           ; 480 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=4,6,1,1,2,10
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=32 scale=0.001188177 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*160 7*960 2*4 3*80 2*320 10*8]          ; 840 steps
        b: 0x8200 [7*4 3*28 2*112 1*64]                     ; 42 words, 168 B
        c: 0x400 [14*4 6*0 5*56 2*0]                        ; 840 steps
        d: 0x1800 [14*0 6*4 10*0]                           ; 840 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,7,2,3,2,10
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=28 lanes=28 scale=0.0015556888 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*100 2*500 1*4 1*100 8*500 25*4]         ; 2000 steps
        b: 0x8200 [16*4 1*64 8*64 1*64]                     ; 128 words, 512 B
        c: 0x400 [10*4 8*0 5*40 5*0]                        ; 2000 steps
        d: 0x1800 [10*0 8*4 25*0]                           ; 2000 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=5,2,1,1,8,25
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=309 zero_point_step=3 zero_point_base=306
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*48 4*432 1*4 7*48 3*432 12*4]           ; 2016 steps
        b: 0x8200 [1*4 7*4 3*32 1*64]                       ; 21 words, 84 B
        c: 0x400 [8*4 21*0 3*32 4*0]                        ; 2016 steps
        d: 0x1800 [8*0 21*4 12*0]                           ; 2016 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,4,1,7,3,12
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=280
        output: block_level=6 reduction=0x27 lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [1*0 1*0 1*0 1*0 1*0 3*60]                 ; 3 steps
        b: 0x8200 [1*0 1*0 3*4]                             ; 3 words, 12 B
        c: 0x400 [1*0 1*0 1*0 1*0 1*0 3*0] ping(7, 4)       ; 3 steps
        d: 0x1800 [1*0 1*0 1*0 1*0 1*0 3*0] ping(4, 4)      ; 3 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=1,1,1,1,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=259 zero_point_step=2 zero_point_base=257
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*4 3*64 3*320 2*128 2*640 8*8]           ; 576 steps
        b: 0x8200 [2*4 2*64 2*128 8*8]                      ; 64 words, 256 B
        c: 0x400 [18*4 4*0 8*72]                            ; 576 steps
        d: 0x1800 [18*0 4*0 8*0] ping(1, 4)                 ; 576 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,3,3,2,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=8 scale=0.0013719886 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*128 3*640 2*256 3*1280 8*16]        ; 1728 steps
        b: 0x8200 [4*4 2*128 3*256 8*16]                    ; 192 words, 768 B
        c: 0x400 [36*4 6*0 8*144]                           ; 1728 steps
        d: 0x1800 [36*0 6*0 8*0] ping(1, 4)                 ; 1728 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,3,2,3,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=565 zero_point_step=3 zero_point_base=544
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [4*4 3*512 3*2048 2*512 2*2048 32*16]      ; 4608 steps
        b: 0x8200 [4*4 2*512 2*1024 32*16]                  ; 512 words, 2048 B
        c: 0x400 [36*4 4*0 4*144 8*0]                       ; 4608 steps
        d: 0x1800 [36*0 4*0 32*0] ping(1, 4)                ; 4608 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,3,2,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=16 scale=0.0009701424 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [5*4 3*960 3*3840 2*960 2*3840 48*20]      ; 8640 steps
        b: 0x8200 [5*4 2*960 2*1920 48*20]                  ; 960 words, 3840 B
        c: 0x400 [45*4 4*0 3*180 16*0]                      ; 8640 steps
        d: 0x1800 [45*0 4*0 48*0] ping(1, 4)                ; 8640 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=5,3,3,2,2,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=397 zero_point_step=3 zero_point_base=391
        output: block_level=5 reduction=0x7 lanes_last=20 lanes=20 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*128 32*4 1*128 1*128 4*0]         ; 128 steps
        b: 0x8200 [16*4 1*256 1*768 4*64]                   ; 64 words, 256 B
        c: 0x400 [32*4 1*0 1*0 4*0] ping(2, 128)            ; 128 steps
        d: 0x1800 [32*0 1*0 4*0] ping(1, 4)                 ; 128 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,32,1,1,4
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=0.0010289914 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [10*4 3*400 3*1600 2*400 2*1600 10*40]     ; 3600 steps
        b: 0x8200 [10*4 2*400 2*800 10*40]                  ; 400 words, 1600 B
        c: 0x400 [90*4 4*0 1*0 10*0] ping(2, 360)           ; 3600 steps
        d: 0x1800 [90*0 4*0 10*0] ping(1, 4)                ; 3600 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=10,3,3,2,2,10
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=40 lanes=40 scale=0.00061357196 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*256 1*256 64*4 1*256 2*256 8*0]         ; 1024 steps
        b: 0x8200 [16*4 1*512 2*1536 8*64]                  ; 256 words, 1024 B
        c: 0x400 [64*4 2*0 1*0 8*0] ping(2, 256)            ; 1024 steps
        d: 0x1800 [64*0 2*0 8*0] ping(1, 4)                 ; 1024 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,64,1,2,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=387 zero_point_step=3 zero_point_base=384
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [9*4 3*576 3*3456 2*1152 2*6912 16*36]     ; 5184 steps
        b: 0x8200 [9*4 2*576 2*1152 16*36]                  ; 576 words, 2304 B
        c: 0x400 [81*4 4*0 1*0 16*0] ping(2, 324)           ; 5184 steps
        d: 0x1800 [81*0 4*0 16*0] ping(1, 4)                ; 5184 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=9,3,3,2,2,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=421 zero_point_step=3 zero_point_base=418
        output: block_level=5 reduction=0x7 lanes_last=36 lanes=36 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*8 1*24 2*4 1*8 9*24 2*0]                ; 36 steps
        b: 0x8200 [16*4 1*76 9*76 2*64] part(3, 3)          ; 171 words, 684 B
        c: 0x400 [2*4 9*0 1*0 2*0] ping(2, 8)               ; 36 steps
        d: 0x1800 [2*0 9*0 2*0] ping(1, 4)                  ; 36 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_south_in>=-30000+1*i@6
        wait: mesh_west_in>=-30000+1*i@6
        wait: mesh_east_in>=-30000+1*i@6
        loops: loops=1,1,2,1,9,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=263 zero_point_step=3 zero_point_base=260
        output: block_level=5 reduction=0x7 lanes_last=12 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@2 parameters=@2
        a: 0x100 [1*4 1*8 1*4 2*4 5*8 2*0]                  ; 20 steps
        b: 0x8200 [16*4 2*76 5*152 2*64] part(3, 3)         ; 190 words, 760 B
        c: 0x400 [1*4 10*0 1*0 2*0] ping(2, 4)              ; 20 steps
        d: 0x1800 [1*0 10*0 2*0] ping(1, 4)                 ; 20 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        wait: mesh_west_in>=-30000+1*i@6
        loops: loops=1,1,1,2,5,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=261 zero_point_step=3 zero_point_base=258
        output: block_level=5 reduction=0x7 lanes_last=12 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*4 1*4 1*4 1*4 8*4 2*0]                  ; 16 steps
        b: 0x8200 [16*4 1*100 8*500 2*64] part(3, 9)        ; 200 words, 800 B
        c: 0x400 [1*4 8*0 1*0 2*0] ping(2, 4)               ; 16 steps
        d: 0x1800 [1*0 8*0 2*0] ping(1, 4)                  ; 16 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: mesh_north_in>=-30000+1*i@6
        loops: loops=1,1,1,1,8,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=36 lanes=64 scale=0.0058208546 maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [10*4 3*512 3*3072 2*1024 2*6144 13*40]    ; 4680 steps
        b: 0x8200 [10*4 2*512 2*1024 13*40] part(3, 8)      ; 512 words, 2048 B
        c: 0x400 [90*4 4*0 1*0 13*0] ping(2, 360)           ; 4680 steps
        d: 0x1800 [90*0 4*0 13*0] ping(1, 4)                ; 4680 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=10,3,3,2,2,13
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=40 scale=0.00061357196 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*172 1*172 43*4 1*172 3*172 3*0]         ; 387 steps
        b: 0x8200 [16*4 1*136 3*136 3*64] part(3, 2)        ; 102 words, 408 B
        c: 0x400 [43*4 3*0 1*0 3*0] ping(2, 172)            ; 387 steps
        d: 0x1800 [43*0 3*0 3*0] ping(1, 4)                 ; 387 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=1,1,43,1,3,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=345 zero_point_step=3 zero_point_base=342
        output: block_level=5 reduction=0x7 lanes_last=8 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

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
        a: 0x100 [4*4 3*512 4*3072 4*512 2*6144 32*16]      ; 12288 steps
        b: 0x8200 [4*4 2*2048 4*512 2*4096 32*16]           ; 2048 words, 8192 B
        c: 0x400 [48*4 8*0 1*0 32*0] ping(2, 192)           ; 12288 steps
        d: 0x1800 [48*0 8*0 32*0] ping(1, 4)                ; 12288 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,4,4,2,32
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=0.000840168 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [4*4 3*384 4*2304 4*384 2*4608 24*16]      ; 9216 steps
        b: 0x8200 [4*4 2*1536 4*384 2*3072 24*16]           ; 1536 words, 6144 B
        c: 0x400 [48*4 8*0 1*0 24*0] ping(2, 192)           ; 9216 steps
        d: 0x1800 [48*0 8*0 24*0] ping(1, 4)                ; 9216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,3,4,4,2,24
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=355 zero_point_step=3 zero_point_base=352
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@2
        a: 0x100 [3*4 4*164 8*2460 2*164 3*820 14*12]       ; 8064 steps
        b: 0x8200 [3*4 2*2952 2*164 3*984 14*12] part(4, 2) ; 492 words, 1968 B
        c: 0x400 [96*4 6*0 1*0 14*0] ping(2, 384)           ; 8064 steps
        d: 0x1800 [96*0 6*0 14*0] ping(1, 4)                ; 8064 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=3,4,8,2,3,14
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=450 zero_point_step=2 zero_point_base=448
        output: block_level=5 reduction=0x7 lanes_last=16 lanes=24 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*64 4*384 2*128 2*768 8*8]           ; 1024 steps
        b: 0x8200 [2*4 2*64 2*256 2*128 2*512 8*8]          ; 256 words, 1024 B
        c: 0x400 [32*4 4*0 8*128]                           ; 1024 steps
        d: 0x1800 [32*0 4*0 8*0] ping(1, 4)                 ; 1024 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,4,2,2,8
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=0.0010289914 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*512 4*3072 2*1024 2*6144 64*8]      ; 8192 steps
        b: 0x8200 [2*4 2*512 2*2048 2*1024 2*4096 64*8]     ; 2048 words, 8192 B
        c: 0x400 [32*4 4*0 4*128 16*0]                      ; 8192 steps
        d: 0x1800 [32*0 4*0 64*0] ping(1, 4)                ; 8192 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,4,2,2,64
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=32 lanes=32 scale=0.0010289914 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 6*384 4*3840 2*1536 3*7680 48*8]      ; 13824 steps
        b: 0x8200 [2*4 4*384 2*3072 2*1536 3*6144 48*8]     ; 4608 words, 18432 B
        c: 0x400 [48*4 6*0 3*192 16*0]                      ; 13824 steps
        d: 0x1800 [48*0 6*0 48*0] ping(1, 4)                ; 13824 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,6,4,2,3,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=406 zero_point_step=3 zero_point_base=400
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*128 6*1280 4*256 2*5120 16*8]       ; 6144 steps
        b: 0x8200 [2*4 2*128 4*1024 4*256 2*4096 16*8]      ; 2048 words, 8192 B
        c: 0x400 [48*4 8*0 1*0 16*0] ping(2, 192)           ; 6144 steps
        d: 0x1800 [48*0 8*0 16*0] ping(1, 4)                ; 6144 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,6,4,2,16
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=0.000840168 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [4*4 5*64 5*576 2*256 3*2304 4*16]         ; 2400 steps
        b: 0x8200 [4*4 2*64 2*256 2*128 3*512 4*16]         ; 384 words, 1536 B
        c: 0x400 [100*4 6*0 1*0 4*0] ping(2, 400)           ; 2400 steps
        d: 0x1800 [100*0 6*0 4*0] ping(1, 4)                ; 2400 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=4,5,5,2,3,4
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=459 zero_point_step=3 zero_point_base=456
        output: block_level=5 reduction=0x7 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [2*4 4*384 5*3840 4*768 2*11520 48*8]      ; 15360 steps
        b: 0x8200 [2*4 2*384 3*3072 4*768 2*9216 48*8]      ; 4608 words, 18432 B
        c: 0x400 [40*4 8*0 1*0 48*0] ping(2, 160)           ; 15360 steps
        d: 0x1800 [40*0 8*0 48*0] ping(1, 4)                ; 15360 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=2,4,5,4,2,48
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=339 zero_point_step=3 zero_point_base=336
        output: block_level=5 reduction=0x7 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@5 parameters=@2
        a: 0x100 [11*24 2*512 3*8 2*256 6*512 2*4]          ; 1584 steps
        b: 0x8200 [2*4 6*48 3*16 2*304 6*608 2*8]           ; 864 words, 3456 B
        c: 0x400 [22*4 36*0 1*0 2*0] ping(2, 88)            ; 1584 steps
        d: 0x1800 [22*0 36*0 2*0] ping(1, 4)                ; 1584 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=11,2,3,2,6,2
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=303 zero_point_step=3 zero_point_base=300
        output: block_level=5 reduction=0x3 lanes_last=48 lanes=48 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@6 parameters=@2
        a: 0x100 [5*16 10*208 2*8 2*32 2*104 2*4]           ; 800 steps
        b: 0x8200 [1*4 2*16 4*144 2*8 2*32 2*72 2*4]        ; 128 words, 512 B
        c: 0x400 [50*4 8*0 1*0 2*0] ping(2, 200)            ; 800 steps
        d: 0x1800 [50*0 8*0 2*0] ping(1, 4)                 ; 800 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@5
        loops: loops=5,10,2,2,2,2
        operands: trained accumulate
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=5 reduction=0x3 lanes_last=32 lanes=32 scale=0.0008231932 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*1024 1*1024 64*4 1*1024 1*1024 4*256 16*0]; 4096 steps
        b: 0x8200 [16*4 1*1024 1*1024 16*64]                ; 256 words, 1024 B
        c: 0x400 [64*4 1*0 4*0 16*0] ping(2, 256)           ; 4096 steps
        d: 0x1800 [256*0 1*0 16*0] ping(1, 4)               ; 4096 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,64,1,1,4,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=387 zero_point_step=3 zero_point_base=384
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*2880 12*4 4*576 4*2880 12*48 4*0] ; 9216 steps
        b: 0x8200 [16*4 4*256 4*1024 4*64]                  ; 1024 words, 4096 B
        c: 0x400 [12*4 16*0 12*0 4*0] ping(2, 48)           ; 9216 steps
        d: 0x1800 [12*0 16*4 12*0 4*0]                      ; 9216 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,12,4,4,12,4
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*512 1*512 2*4 1*512 1*512 64*8 16*0]    ; 2048 steps
        b: 0x8200 [16*4 1*1024 1*3072 16*64]                ; 256 words, 1024 B
        c: 0x400 [2*4 1*0 64*8 1*0 16*0]                    ; 2048 steps
        d: 0x1800 [128*0 1*0 16*0] ping(1, 4)               ; 2048 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,2,1,1,64,16
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=387 zero_point_step=3 zero_point_base=384
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*256 1*512 8*4 2*256 2*512 8*32 8*0]     ; 2048 steps
        b: 0x8200 [16*4 2*512 2*2048 8*64]                  ; 512 words, 2048 B
        c: 0x400 [8*4 4*0 8*32 1*0 8*0]                     ; 2048 steps
        d: 0x1800 [8*0 4*4 8*0 8*0]                         ; 2048 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,2,2,8,8
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*512 1*512 8*4 1*512 2*512 16*32 8*0]    ; 2048 steps
        b: 0x8200 [16*4 1*512 2*1536 8*64]                  ; 256 words, 1024 B
        c: 0x400 [8*4 2*0 16*32 1*0 8*0]                    ; 2048 steps
        d: 0x1800 [8*0 2*4 16*0 8*0]                        ; 2048 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,1,2,16,8
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=387 zero_point_step=3 zero_point_base=384
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*256 8*4 2*128 2*256 4*32 2*0]     ; 256 steps
        b: 0x8200 [16*4 2*128 2*512 2*64]                   ; 128 words, 512 B
        c: 0x400 [8*4 4*0 4*32 1*0 2*0]                     ; 256 steps
        d: 0x1800 [8*0 4*4 4*0 2*0]                         ; 256 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,2,2,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*128 1*256 8*4 2*128 3*256 4*32 4*0]     ; 768 steps
        b: 0x8200 [16*4 2*256 3*1024 4*64]                  ; 384 words, 1536 B
        c: 0x400 [8*4 6*0 4*32 1*0 4*0]                     ; 768 steps
        d: 0x1800 [8*0 6*4 4*0 4*0]                         ; 768 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,2,3,4,4
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=291 zero_point_step=3 zero_point_base=288
        output: block_level=6 reduction=0x27 lanes_last=64 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*1152 12*4 2*576 2*1152 12*48 3*0] ; 1728 steps
        b: 0x8200 [16*4 2*160 2*320 3*64] part(3, 8)        ; 160 words, 640 B
        c: 0x400 [12*4 4*0 12*0 3*0] ping(2, 48)            ; 1728 steps
        d: 0x1800 [12*0 4*4 12*0 3*0]                       ; 1728 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,12,2,2,12,3
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=0.001680336 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*576 1*1152 12*4 2*576 2*1152 12*48 3*0] ; 1728 steps
        b: 0x8200 [16*4 2*160 2*320 3*64] part(3, 8)        ; 160 words, 640 B
        c: 0x400 [12*4 4*0 12*0 3*0] ping(2, 48)            ; 1728 steps
        d: 0x1800 [12*0 4*4 12*0 3*0]                       ; 1728 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,12,2,2,12,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=283 zero_point_step=3 zero_point_base=280
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*400 1*800 10*4 2*400 2*800 10*40 2*0]   ; 800 steps
        b: 0x8200 [16*4 2*80 2*320 2*64] part(3, 4)         ; 80 words, 320 B
        c: 0x400 [10*4 4*0 10*40 1*0 2*0]                   ; 800 steps
        d: 0x1800 [10*0 4*4 10*0 2*0]                       ; 800 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,10,2,2,10,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=16 lanes=64 scale=0.0018407159 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*960 1*1920 8*4 2*960 2*1920 30*32 3*0]  ; 2880 steps
        b: 0x8200 [16*4 2*160 2*320 3*64] part(3, 8)        ; 160 words, 640 B
        c: 0x400 [8*4 4*0 10*32 3*0 3*0]                    ; 2880 steps
        d: 0x1800 [8*0 4*4 30*0 3*0]                        ; 2880 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: ring_read_a>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,2,2,30,3
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=339 zero_point_step=3 zero_point_base=336
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*64 1*576 4*4 7*64 2*576 4*16 2*0]       ; 896 steps
        b: 0x8200 [16*4 7*240 2*5400 2*64] part(3, 14)      ; 420 words, 1680 B
        c: 0x400 [8*4 14*0 4*32 1*0 2*0]                    ; 896 steps
        d: 0x1800 [8*0 14*4 4*0 2*0]                        ; 896 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,1,4,7,2,4,2
        operands: trained
        zero_points: c_zero_point=128 a_zero_point=128
        output: block_level=6 reduction=0x27 lanes_last=56 lanes=64 scale=0.0020579828 bias_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [1*384 1*1536 8*4 4*384 4*1536 12*32 2*0]  ; 3072 steps
        b: 0x8200 [16*4 4*96 4*384 2*64] part(3, 8)         ; 384 words, 1536 B
        c: 0x400 [8*4 16*0 12*32 1*0 2*0]                   ; 3072 steps
        d: 0x1800 [8*0 16*4 12*0 2*0]                       ; 3072 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=1,1,8,4,4,12,2
        operands: trained
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=355 zero_point_step=3 zero_point_base=352
        output: block_level=6 reduction=0x27 lanes_last=32 lanes=64 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@3 parameters=@2
        a: 0x100 [2*16 4*32 1*4 1*16 8*32 4*4 3*0]          ; 768 steps
        b: 0x8200 [16*4 1*420 8*140 3*64] part(3, 3)        ; 280 words, 1120 B
        c: 0x400 [8*4 8*0 4*32 1*0 3*0]                     ; 768 steps
        d: 0x1800 [8*0 8*4 4*0 3*0]                         ; 768 steps
        wait: ring_read_b>=-30000+1*i@5
        wait: wide_to_scaling>=-30000+1*i@6
        loops: loops=2,4,1,1,8,4,3
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
        a: 0x100 [3*12 3*72 4*12 2*72 1*0 1*0 1*0 3*4]      ; 216 steps
        b: 0x8200 [8*12 1*0 1*0 1*0 3*4]                    ; 24 words, 96 B
        c: 0x400 [9*4 8*0 1*0 1*0 1*0 1*0 1*0 3*36]         ; 216 steps
        d: 0x1800 [9*0 1*0 1*0 1*0 1*0 1*0 1*0 24*0] ping(4, 4); 216 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=9,1,1,1,8,1,1,3
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=289 zero_point_step=3 zero_point_base=283
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 bias_in_memory scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    mac tiles=r1c1 avdata=@4 parameters=@7
        a: 0x100 [18*32 1*0 1*0 1*0 1*0 1*0 1*0 8*4]        ; 144 steps
        b: 0x8200 [18*32 1*0 1*0 1*0 8*4]                   ; 144 words, 576 B
        c: 0x400 [18*0 1*0 1*0 1*0 1*0 1*0 1*0 8*4]         ; 144 steps
        d: 0x1800 [1*0 1*0 1*0 1*0 1*0 1*0 1*0 144*0] ping(4, 4); 144 steps
        wait: ring_read_a>=-30000+1*i@7
        wait: wide_to_scaling>=-30000+1*i@7
        loops: loops=1,1,1,1,18,1,1,8
        operands: trained accumulate
        zero_points: zero_points_in_memory a_zero_point=128 zero_point_last=278 zero_point_step=2 zero_point_base=264
        output: block_level=7 reduction=0xf lanes_last=4 lanes=4 scale=1 scale_in_memory maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [6*4 1*24 1*144]                          ; 6 words, 24 B
        c: 0x401 [1*1 1*4 1*1 1*12]                         ; 1 step
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
        b: 0x8200 [6*4 1*24 1*144]                          ; 6 words, 24 B
        c: 0x400 [2*1 1*4 1*1 1*12]                         ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=24 lanes=24 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [4*1 1*4]                                  ; 4 steps
        d: 0x1800 [4*0] ping(1, 4)                          ; 4 steps
        wait: narrow_to_wide>=0@2
        loops: loops=4
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=64 lanes=64 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

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
        b: 0x8200 [3*4 1*12 1*12]                           ; 3 words, 12 B
        c: 0x401 [1*1 2*4 1*2 1*8]                          ; 2 steps
        d: 0x1800 [2*0] ping(1, 4)                          ; 2 steps
        loops: loops=1,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=12 lanes=12 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1
        b: 0x8200 [16*4]                                    ; 16 words, 64 B
        c: 0x400 [4*1 4*4]                                  ; 16 steps
        d: 0x1800 [16*0] ping(1, 4)                         ; 16 steps
        wait: narrow_to_wide>=0@2
        loops: loops=4,4
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=3 reduction=0x3 lanes_last=64 lanes=64 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [3*4 2*12 1*24]                           ; 6 words, 24 B
        c: 0x400 [1*1 2*8 2*3 1*8]                          ; 4 steps
        d: 0x1800 [2*0 2*0] ping(1, 4)                      ; 4 steps
        loops: loops=1,2,2
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=12 lanes=12 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    max tiles=r1c1 avdata=@3
        b: 0x8200 [1*4 1*4 3*12]                            ; 3 words, 12 B
        c: 0x400 [1*1 1*4 1*2 3*4]                          ; 3 steps
        d: 0x1800 [1*0 1*0 3*0] ping(1, 4)                  ; 3 steps
        loops: loops=1,1,1,3
        operands: accumulate idle_multipliers=1,1,1
        zero_points: a_zero_point=128
        output: block_level=4 reduction=0x3 lanes_last=4 lanes=4 scale=0.8614865 maximum=127 minimum=-128 output_zero_point=128

    mesh_northward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 1*99 3*16] part(3, 1)    ; 33 words, 132 B

    mesh_southward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [4*1 3*28 2*168 7*4]                ; 168 words, 672 B

    mesh_westward tiles=r1c1 received=@3 fill fill_word=0x12345678
        receive: 0x2080 [16*1 1*33 3*99 3*16] part(3, 1)    ; 99 words, 396 B

    mesh_westward tiles=r1c1
        send: 0x40 [16*1 2*26 2*130 2*16] part(3, 10)       ; 104 words, 416 B
        wait: avdata>=-30000+1*i@3
        wait: mesh_south_in>=-30000+1*i@3

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [2*1 1*2]                              ; 2 words, 8 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=-30000+1*i@1

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [12*1 1*12]                            ; 12 words, 48 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=0@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 1*4]                              ; 4 words, 16 B
        wide: 0x600 [1*1] ping(1, 1)                        ; 1 row, 256 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [256*1]                                ; 256 words, 1024 B
        wide: 0x600 [4*1]                                   ; 4 rows, 1024 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [68*1 1*68]                            ; 68 words, 272 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=0@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 transpose=bytes pack_level=2
        narrow: 0x40 [4*6 6*1 1*24]                         ; 24 words, 96 B
        wide: 0x600 [1*1]                                   ; 1 row, 256 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [1*1 2*1]                              ; 2 words, 8 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=-30000+1*i@1

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [1*1 9*1]                              ; 9 words, 36 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=0@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [22*1 3*44]                            ; 66 words, 264 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=-30000+1*i@1

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [8*1 9*8]                              ; 72 words, 288 B
        wide: 0x600 [2*0] ping(0, 1)                        ; 2 rows, 512 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=0@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=1
        narrow: 0x40 [32*1 4*32]                            ; 128 words, 512 B
        wide: 0x600 [4*0] ping(0, 1)                        ; 4 rows, 1024 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 3*4]                              ; 12 words, 48 B
        wide: 0x600 [3*1] ping(1, 3)                        ; 3 rows, 768 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 180*4]                            ; 720 words, 2880 B
        wide: 0x600 [18*1 10*0] ping(1, 18)                 ; 180 rows, 46080 B
        wait: avdata>=0@1
        wait: parameters>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [16*1 4*16]                            ; 64 words, 256 B
        wide: 0x600 [2*1 2*0] ping(1, 2)                    ; 4 rows, 1024 B
        wait: ring_write>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [16*1 2*16] part(1, 10)                ; 26 words, 104 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 transpose=bytes pack_level=2
        narrow: 0x40 [4*1 1*1 3*4]                          ; 12 words, 48 B
        wide: 0x600 [3*1]                                   ; 3 rows, 768 B

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=1
        narrow: 0x40 [4*1 2*4 5*8]                          ; 40 words, 160 B
        wide: 0x600 [2*1 5*2]                               ; 10 rows, 2560 B
        wait: avdata>=-30000+1*i@2

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=3
        narrow: 0x40 [11*1 6*11 5*77 1*16]                  ; 330 words, 1320 B
        wide: 0x600 [4*1 2*0] ping(1, 4) part(1, 2)         ; 6 rows, 1536 B
        wait: ring_write>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@1 pack_level=3
        narrow: 0x40 [16*1 1*25 5*25 2*16] part(3, 9)       ; 125 words, 500 B
        wide: 0x600 [2*1 2*0] ping(1, 2) part(1, 1)         ; 3 rows, 768 B
        wait: ring_write>=-30000+1*i@1 write

    narrow_to_wide tiles=r1c1 narrow_to_wide=@0 pack_level=2
        narrow: 0x40 [1*1 1*1]                              ; 1 word, 4 B
        wide: 0x600 ping(0, 1)                              ; 1 row, 256 B
        wait: ring_write>=-30000+1*i@0 write
        wait: avdata>=-30000+1*i@1

    ring_consume_a tiles=r1c1 ring_read=@0
        wide: 0x600 [4*0] ping(0, 1)                        ; 4 rows, 1024 B
        wait: wide_to_narrow>=-30000+64*i@0

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x600 [4*1 7*5]                               ; 28 rows, 7168 B
        wait: parameters>=-30000+1*i@1 write

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x604 [9*1 4*9 8*0]                           ; 288 rows, 73728 B
        prefix: level=0 base=0x600 words=1 end=0x603 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x600 [7*1 5*14 2*0]                          ; 70 rows, 17920 B
        wait: parameters>=-30000+1*i@1 write

    ring_consume_a tiles=r1c1 ring_read=@1
        wide: 0x600 [5*1 10*10 1*0 2*0]                     ; 100 rows, 25600 B
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
        wide: 0x605 [7*1 5*14 2*0]                          ; 70 rows, 17920 B
        prefix: level=0 base=0x600 words=1 end=0x604 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [9*1 4*9 2*0]                           ; 72 rows, 18432 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x600 [4*1 5*4 3*0]                           ; 60 rows, 15360 B
        wait: parameters>=-30000+1*i@1 write

    ring_consume_b tiles=r1c1 ring_read=@1
        wide: 0x602 [4*1 9*8 2*0 3*0]                       ; 216 rows, 55296 B
        prefix: level=2 base=0x600 words=1 end=0x601 step=1
        wait: parameters>=-30000+1*i@1 write

    ring_produce tiles=r1c1 ring_write=@1 token=@2 destination=r0c0
        wide: 0x100 [2*1 2*0] ping(1, 2) part(1, 1)         ; 3 rows, 768 B
        wait: ring_producer_a>=0@2
        wait: narrow_to_wide>=-30000+1*i@1

    wide_to_narrow tiles=r1c1 wide_to_narrow=@0 pack_level=2
        wide: 0x100 [1*1] ping(1, 1)                        ; 1 row, 256 B
        narrow: 0x2080 [8*1] ping(1, 8) part(1, 1)          ; 1 word, 4 B
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
        narrow: 0x2080 [16*1 2*16 2*112 2*784]              ; 128 words, 512 B
        wait: ring_read_a>=0@2

    wide_to_narrow tiles=r1c1 wide_to_narrow=@2 to_scaling pack_level=1
        wide: 0x100 [1*1 5*1 2*0]                           ; 10 rows, 2560 B
        narrow: 0x40 [32*1 1*64 10*0] ping(2, 32)           ; 320 entries, 2560 B
        wait: ring_read_b>=-30000+1*i@1
        wait: avdata>=-30000+1*i@2 write
