/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of attnc tune, in an SQLite database that survives being killed at any time. The
 * schema is public: docs/tuning.md.
 */
#ifndef TOOLS_ATTNC_TUNE_DB_H
#define TOOLS_ATTNC_TUNE_DB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tune_db;

/** Identity of a measurement: two with the same values are the same measurement. */
struct tune_id {
    const char *key;    /* attnc_key_text() */
    const char *device; /* "model gfx950", or a GPU's name */
    const char *shape;  /* "batch=1,q=512"; "" of a verification */
    const char *tile;   /* att_tile_text() */
    const char *source; /* hash of the code object, and for modelled times of the model */
};

struct tune_value {
    double cycles;              /* modelled; 0 on a GPU */
    double us, us_low, us_high; /* median and its confidence interval; equal on the model */
    double matrix_duty, memory_fraction; /* modelled counters */
    int64_t runs;
    char fault[200]; /* why there is no figure; "": there is one */
};

struct tune_verdict {
    int64_t shapes;
    double worst;    /* error as a part of its bound */
    char fault[200]; /* "": passed */
};

/** Opens or creates a database. Returns NULL after a message. */
struct tune_db *tune_db_open(const char *path, bool create);
/** Closes a database; NULL is allowed. */
void tune_db_close(struct tune_db *db);

/** Reads the value of the row with this id into *v. Returns false if there is no such row. */
bool tune_db_find(struct tune_db *db, const struct tune_id *id, struct tune_value *v);
/** Reads the value of a row with this id that a GPU has measured, whatever its device. Returns
 * false if there is none. */
bool tune_db_find_measured(struct tune_db *db, const struct tune_id *id, struct tune_value *v);
/** Reads the verdict of a verification with this id. Returns false if there is none. */
bool tune_db_find_verdict(struct tune_db *db, const struct tune_id *id, struct tune_verdict *v);

/** Writes a row in place of one with the same id. The row survives even if the process is killed.
 * Returns false after a message. */
bool tune_db_put(struct tune_db *db, const struct tune_id *id, const struct tune_value *v);
/** Writes the verdict of a verification. Returns false after a message. */
bool tune_db_put_verdict(struct tune_db *db, const struct tune_id *id,
                         const struct tune_verdict *v);

/**
 * Adds the rows of another database. Of two with the same id the more trustworthy stays: one with a
 * figure before one with a fault, then the narrower confidence interval, then more runs, then the
 * smaller figure. So the order of merging has no influence. Returns false after a message.
 */
bool tune_db_merge(struct tune_db *db, const char *path);

/** Prints all measurements, in the order of their ids: a table, or CSV. Returns false after a
 * message. */
bool tune_db_print(struct tune_db *db, bool csv, FILE *out);

/** Rewrites the file in the order of ids: databases of the same rows are the same bytes. Only
 * tune_db_close() may follow. */
bool tune_db_tidy(struct tune_db *db);

#endif
