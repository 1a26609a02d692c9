#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""metadata.py TARGET OBJECT OUTPUT: writes the metadata of an assembled object's kernels, as assembly.

HIP finds kernels by the metadata note. One note must name all kernels of a code object. The
assembler's macros see one kernel at a time and cannot write it. A macro therefore writes a line to
section .kernels, which the linker drops: the kernel's name, the work-items of its largest workgroup,
and its arguments as KIND:BYTES in order. The other numbers come from the kernel descriptors
(AMDGPUUsage, "Kernel Descriptor" and "Code Object V5 Metadata").
"""
import struct
import sys

SHT_SYMTAB = 2
LINK = 6


class Object:
    """An ELF64 object: its sections and symbols."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            self.bytes = file.read()
        table, = struct.unpack_from('<Q', self.bytes, 40)
        size, count, names = struct.unpack_from('<3H', self.bytes, 58)
        # fields of a section header: name, type, flags, address, offset, size, link, ...
        self.headers = [struct.unpack_from('<2I4Q2I2Q', self.bytes, table + i * size)
                        for i in range(count)]
        self.names = [self.text(names, header[0]) for header in self.headers]

    def contents(self, index):
        """Returns the bytes of a section."""
        offset, size = self.headers[index][4:6]
        return self.bytes[offset:offset + size]

    def text(self, strings, at):
        """Returns the string at byte `at` of the string section `strings`."""
        contents = self.contents(strings)
        return contents[at:contents.index(b'\0', at)].decode()

    def symbols(self):
        """Yields (name, index of the section, byte offset in the section) of each symbol."""
        table = next(i for i, header in enumerate(self.headers) if header[1] == SHT_SYMTAB)
        for name, _, _, section, value, _ in struct.iter_unpack('<I2BH2Q', self.contents(table)):
            yield self.text(self.headers[table][LINK], name), section, value

    def descriptors(self):
        """Returns the 64 bytes of each kernel's descriptor, by the kernel's name."""
        return {name[:-3]: self.contents(section)[value:value + 64]
                for name, section, value in self.symbols() if name.endswith('.kd')}

    def lines(self):
        """Returns the words after the name in each kernel's line of .kernels, by the kernel's name."""
        lines = self.contents(self.names.index('.kernels')).decode().splitlines()
        return {words[0]: words[1:] for words in map(str.split, lines)}


def arguments(name, words, kernarg_bytes):
    """Returns the lines of a kernel's arguments, which must have `kernarg_bytes` bytes in total."""
    out, offset = [], 0
    for word in words:
        kind, size = word.split(':')
        out.append(f'      - {{ .offset: {offset}, .size: {size}, .value_kind: {kind}'
                   + (', .address_space: global }' if kind == 'global_buffer' else ' }'))
        offset += int(size)
    if offset != kernarg_bytes:
        sys.exit(f'{name}: its arguments have {offset} bytes, and the descriptor says '
                 f'{kernarg_bytes}')
    return ['    .args:'] + out if out else ['    .args: []']


def kernel(name, words, descriptor):
    """Returns the lines of a kernel. Allocated registers are multiples of 8 VGPRs and of 16 SGPRs."""
    group, private, kernarg = struct.unpack_from('<3I', descriptor, 0)
    rsrc3, rsrc1 = struct.unpack_from('<2I', descriptor, 44)
    vgprs = (rsrc1 % 64 + 1) * 8
    accum_offset = (rsrc3 % 64 + 1) * 4
    return [
        f'  - .name: {name}',
        f'    .symbol: {name}.kd',
        f'    .kernarg_segment_size: {kernarg}',
        '    .kernarg_segment_align: 8',
        f'    .group_segment_fixed_size: {group}',
        f'    .private_segment_fixed_size: {private}',
        '    .wavefront_size: 64',
        f'    .sgpr_count: {((rsrc1 >> 6) % 16 // 2 + 1) * 16}',
        f'    .vgpr_count: {vgprs}',
        f'    .agpr_count: {max(vgprs - accum_offset, 0)}',
        f'    .max_flat_workgroup_size: {words[0]}',
    ] + arguments(name, words[1:], kernarg)


def main():
    target, path, output = sys.argv[1:]
    assembled = Object(path)
    descriptors, lines = assembled.descriptors(), assembled.lines()
    if descriptors.keys() != lines.keys():
        differ = sorted(descriptors.keys() ^ lines.keys())
        sys.exit(f'{path}: .kernels and the descriptors differ in {differ}')
    out = ['.amdgpu_metadata', 'amdhsa.version: [ 1, 2 ]',
           f'amdhsa.target: amdgcn-amd-amdhsa--{target}', 'amdhsa.kernels:']
    for name in sorted(descriptors):
        out += kernel(name, lines[name], descriptors[name])
    with open(output, 'w', encoding='ascii') as file:
        file.write('\n'.join(out + ['.end_amdgpu_metadata', '']))


main()
