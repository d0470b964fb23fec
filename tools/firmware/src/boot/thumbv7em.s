@ Start on a Cortex-M with a floating-point unit.

.syntax unified
.thumb

.macro fill from, to
    ldr r0, =\from
    ldr r1, =\to
1:  cmp r0, r1
    bhs 2f
    str r2, [r0], #4
    b 1b
2:
.endm

.section .vectors, "a"
    .word __stack_end
    .word _start
.rept 14
    .word trap
.endr

.section .text.start, "ax"
.global _start
.type _start, %function
.thumb_func
_start:
    @ Floating-point registers may be used.
    ldr r0, =0xe000ed88
    ldr r1, [r0]
    orr r1, r1, #(0xf << 20)
    str r1, [r0]
    dsb
    isb

    mov r2, #0
    fill __bss_start, __bss_end
    fill __pool_start, __pool_end
    ldr r2, =0xa5a5a5a5
    fill __stack_start, __stack_end
    ldr r0, =__data_start
    ldr r1, =__data_end
    ldr r2, =__data_load
3:  cmp r0, r1
    bhs 4f
    ldr r3, [r2], #4
    str r3, [r0], #4
    b 3b
4:  bl start
    b .

.type trap, %function
.thumb_func
trap:
    ldr r0, =__stack_end
    mov sp, r0
    bl fault
    b .
