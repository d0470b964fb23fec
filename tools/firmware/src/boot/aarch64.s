// Start on aarch64, at EL1 with everything off.

.macro address register, symbol
    adrp \register, \symbol
    add \register, \register, :lo12:\symbol
.endm

.macro fill from, to
    address x0, \from
    address x1, \to
1:  cmp x0, x1
    b.hs 2f
    str x2, [x0], #8
    b 1b
2:
.endm

.section .text.start, "ax"
.global _start
_start:
    address x0, vectors
    msr vbar_el1, x0
    // Floating-point registers may be used.
    mov x0, #(3 << 20)
    msr cpacr_el1, x0
    // Without translation all memory is device memory: no unaligned access, no exclusive one.
    ldr x0, =0xff00             // attribute 0: device, attribute 1: normal, write-back
    msr mair_el1, x0
    ldr x0, =0x800020           // 4 GiB by TTBR0 in granules of 4 KiB, nothing by TTBR1
    msr tcr_el1, x0
    address x0, translations
    msr ttbr0_el1, x0
    isb
    tlbi vmalle1
    dsb sy
    isb
    mrs x0, sctlr_el1
    ldr x1, =0x1005             // translation, data cache, instruction cache
    orr x0, x0, x1
    msr sctlr_el1, x0
    isb

    mov x2, #0
    fill __bss_start, __bss_end
    fill __pool_start, __pool_end
    ldr x2, =0xa5a5a5a5a5a5a5a5
    fill __stack_start, __stack_end
    address x0, __data_start
    address x1, __data_end
    address x2, __data_load
3:  cmp x0, x1
    b.hs 4f
    ldr x3, [x2], #8
    str x3, [x0], #8
    b 3b
4:  address x0, __stack_end
    mov sp, x0
    bl start
    b .

.balign 2048
vectors:
.rept 16
    bl fault
    .balign 128
.endr

// The first GiB has the devices, the second the memory.
.section .rodata.translations, "a"
.balign 4096
translations:
    .quad 0x0060000000000401    // device, not to be executed
    .quad 0x0000000040000705    // normal, shareable
    .quad 0, 0
