/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that metadata_read() skips items of every MessagePack format, and refuses cut documents. */
#include "tests/unit_test.h"
#include "tools/hipsim/core/metadata.h"

#include <stdlib.h>
#include <string.h>

/* The document: a map of the key "u" with an item, and of a list with the kernel "k". */
#define BEFORE "\x82\xa1u"
#define AFTER \
    "\xae"    \
    "amdhsa.kernels\x91\x82\xa5.name\xa1k\xa7.symbol\xa4k.kd"

struct bytes {
    const char *data;
    size_t size;
};
#define ITEM(text) {BEFORE text AFTER, sizeof(BEFORE text AFTER) - 1}

/* An item of each format that follows a tag. Zeros in lengths and payloads are "\0". */
static const struct bytes documents[] = {
    ITEM("\x7f"), /* small numbers, maps, arrays and strings */
    ITEM("\xe0"),
    ITEM("\x81\xc0\xc0"),
    ITEM("\x92\xc0\xc0"),
    ITEM("\xa2zz"),
    ITEM("\xc0"), /* nil, false, true */
    ITEM("\xc2"),
    ITEM("\xc3"),
    ITEM("\xc4\2zz"), /* bin */
    ITEM("\xc5\0\2zz"),
    ITEM("\xc6\0\0\0\2zz"),
    ITEM("\xc7\2\1zz"), /* ext */
    ITEM("\xc8\0\2\1zz"),
    ITEM("\xc9\0\0\0\2\1zz"),
    ITEM("\xca\x3f\x80\0\0"), /* float */
    ITEM("\xcb\x3f\xf0\0\0\0\0\0\0"),
    ITEM("\xcc\xff"), /* unsigned */
    ITEM("\xcd\xff\xff"),
    ITEM("\xce\xff\xff\xff\xff"),
    ITEM("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    ITEM("\xd0\x80"), /* signed */
    ITEM("\xd1\x80\0"),
    ITEM("\xd2\x80\0\0\0"),
    ITEM("\xd3\x80\0\0\0\0\0\0\0"),
    ITEM("\xd4\1z"), /* ext of 1, 2, 4, 8 and 16 bytes */
    ITEM("\xd5\1zz"),
    ITEM("\xd6\1zzzz"),
    ITEM("\xd7\1zzzzzzzz"),
    ITEM("\xd8\1zzzzzzzzzzzzzzzz"),
    ITEM("\xd9\2zz"), /* str */
    ITEM("\xda\0\2zz"),
    ITEM("\xdb\0\0\0\2zz"),
    ITEM("\xdc\0\2\xc0\xc0"), /* arrays */
    ITEM("\xdd\0\0\0\2\xc0\xc0"),
    ITEM("\xde\0\1\xc0\xc0"), /* maps */
    ITEM("\xdf\0\0\0\1\xc0\xc0"),
};

/* True if metadata_read() reads the first `size` bytes of a document. The copy has no byte more, so
 * that a sanitizer sees reads after its end. */
static bool reads(const struct bytes *document, size_t size, struct metadata *metadata)
{
    char why[200] = "";
    char *copy = malloc(size + !size);
    memcpy(copy, document->data, size);
    const bool read = metadata_read(copy, size, metadata, why, sizeof(why));
    free(copy);
    if (!read)
        assert_string_equal(why, "the metadata note is malformed: it is no MessagePack document");
    return read;
}

TEST(items_of_every_format_are_skipped)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        struct metadata metadata;
        if (!reads(&documents[i], documents[i].size, &metadata))
            fail_msg("document %zu is refused", i);
        assert_int_equal(metadata.nkernels, 1);
        assert_string_equal(metadata.kernels[0].name, "k");
        assert_string_equal(metadata.kernels[0].symbol, "k.kd");
        metadata_free(&metadata);
    }
}

TEST(documents_that_end_early_are_refused)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        for (size_t size = 0; size < documents[i].size; size++) {
            struct metadata metadata;
            if (reads(&documents[i], size, &metadata))
                fail_msg("%zu bytes of document %zu are read", size, i);
        }
}

TEST(the_unused_tag_is_refused)
{
    static const struct bytes unused = ITEM("\xc1");
    struct metadata metadata;
    assert_false(reads(&unused, unused.size, &metadata));
}

int main(void) { return run_unit_tests(); }
