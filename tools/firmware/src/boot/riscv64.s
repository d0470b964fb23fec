# Start on riscv64, in machine mode.

.macro fill from, to
    la t0, \from
    la t1, \to
1:  bgeu t0, t1, 2f
    sd t2, 0(t0)
    addi t0, t0, 8
    j 1b
2:
.endm

.section .text.start, "ax"
.global _start
_start:
    csrr t0, mhartid
5:  bnez t0, 5b
    la t0, trap
    csrw mtvec, t0
    # Floating-point registers may be used.
    li t0, 0x2000
    csrs mstatus, t0

    li t2, 0
    fill __bss_start, __bss_end
    fill __pool_start, __pool_end
    li t2, 0xa5a5a5a5a5a5a5a5
    fill __stack_start, __stack_end
    la t0, __data_start
    la t1, __data_end
    la t2, __data_load
3:  bgeu t0, t1, 4f
    ld t3, 0(t2)
    sd t3, 0(t0)
    addi t0, t0, 8
    addi t2, t2, 8
    j 3b
4:  la sp, __stack_end
    call start
6:  j 6b

.balign 4
trap:
    la sp, __stack_end
    call fault
