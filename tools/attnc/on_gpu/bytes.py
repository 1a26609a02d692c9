#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bytes.py NAME FILE OUTPUT: writes a file as C: the array of bytes NAME and its size NAME_size."""
import sys

name, path, output = sys.argv[1:]
with open(path, 'rb') as file:
    data = file.read()
rows = [', '.join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
with open(output, 'w', encoding='ascii') as file:
    file.write(f'#include <stddef.h>\nextern const unsigned char {name}[];\nextern const size_t {name}_size;\n'
               f'const unsigned char {name}[] = {{\n' + ',\n'.join(rows)
               + f'\n}};\nconst size_t {name}_size = sizeof({name});\n')
