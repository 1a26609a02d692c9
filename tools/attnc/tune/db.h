/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of attnc tune in an SQLite database, which stays intact if the process is killed. Its
 * schema is public: docs/tuning.md.
 */
#ifndef TOOLS_ATTNC_TUNE_DB_H
#define TOOLS_ATTNC_TUNE_DB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tune_db;

/** The identity of a measurement. Two measurements with equal values are the same. */
struct tune_id {
    /* Target, op and dispatch key, as attnc_key_text() writes them. */
    const char *key;
    /* "model gfx950", or the name of a GPU. */
    const char *device;
    /* Sizes such as "batch=1,q=512"; ignored for verdicts. */
    const char *shape;
    /* The tile, as att_tile_text() writes it. */
    const char *tile;
    /* Hash of the code object; for modelled times also of the timing model. */
    const char *source;
};

/** The time of a launch. */
struct tune_value {
    double cycles;              /* modelled clock cycles; 0 on a GPU */
    double us, us_low, us_high; /* microseconds: median and 95 % interval; all equal if modelled */
    /* By the model, 0 to 1: share of clocks with a matrix instruction; share of the memory
     * roofline. */
    double matrix_duty, memory_fraction;
    /* Timed launches; 0: not measured. */
    int64_t runs;
    char fault[200]; /* why there is no time; "": there is one */
};

/** The result of a verification. */
struct tune_verdict {
    /* Number of verified shapes. */
    int64_t shapes;
    double worst;    /* largest error as a fraction of its bound */
    char fault[200]; /* why it failed; "": it passed */
};

/** Opens the database at `path`; with `create` makes it if it does not exist. Returns NULL after a
 * message. */
struct tune_db *tune_db_open(const char *path, bool create);
/** Closes a database; does nothing if it is NULL. */
void tune_db_close(struct tune_db *db);

/** Reads the time with this id into *v. Returns false if the database does not have it. */
bool tune_db_find(struct tune_db *db, const struct tune_id *id, struct tune_value *v);
/** Reads a time that any GPU has measured into *v. The id's device is ignored. Returns false if the
 * database has none without a fault. */
bool tune_db_find_measured(struct tune_db *db, const struct tune_id *id, struct tune_value *v);
/** Reads the verdict with this id into *v. Returns false if the database does not have it. */
bool tune_db_find_verdict(struct tune_db *db, const struct tune_id *id, struct tune_verdict *v);

/** Writes a time, in place of one with the same id. It stays even if the process is killed. Returns
 * false after a message. */
bool tune_db_put(struct tune_db *db, const struct tune_id *id, const struct tune_value *v);
/** Writes a verdict, in place of one with the same id. Returns false after a message. */
bool tune_db_put_verdict(struct tune_db *db, const struct tune_id *id,
                         const struct tune_verdict *v);

/** Adds the rows of the database at `path`. Of two rows with the same id the more trustworthy
 * stays: without a fault, then with the narrower interval, then with more runs, then with the
 * smaller time. So the order of merges has no influence. Returns false after a message. */
bool tune_db_merge(struct tune_db *db, const char *path);

/** Prints all times in the order of their ids, as a table or as CSV. Returns false after a
 * message. */
bool tune_db_print(struct tune_db *db, bool csv, FILE *out);

/** Rewrites the database file in the order of the ids, so that equal rows make equal bytes. Only
 * tune_db_close() may follow. Returns false after a message. */
bool tune_db_tidy(struct tune_db *db);

#endif
