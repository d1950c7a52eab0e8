"""The functions that an expression in a table's metadata may call.

They are Spark's built-in functions whose value depends on their arguments alone. Functions that use anything else are
left out: other classes and processes, files, the session and its user, the clock, randomness, other rows, and errors
with a text of the table's choosing.

1. A name that is in none of the sets is refused, and so is a function of a later Spark until it is added here.
2. A default is computed once per write, so it may also call for the time, the user and a uuid.
"""

from __future__ import annotations

_DETERMINISTIC = """
    abs acos acosh add_months aes_decrypt aggregate array array_append array_compact array_contains array_distinct
    array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh base64
    bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround
    btrim cardinality cbrt ceil ceiling char char_length character_length chr coalesce collate collation concat
    concat_ws contains conv convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees double e element_at elt encode endswith equal_null exists exp expm1 extract
    factorial filter find_in_set flatten float floor forall format_number format_string from_base32 from_csv from_json
    from_unixtime from_utc_timestamp get get_json_object getbit greatest hash hex hmac hour hypot if ifnull ilike
    initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull jaro_winkler_similarity
    json_array_length json_object_keys last_day lcase least left len length levenshtein like ln locate log log10 log1p
    log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname
    months_between named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length overlay parse_json
    parse_url pi pmod position positive pow power printf quarter quote radians reduce regexp regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint rlike
    round rpad rtrim schema_of_csv schema_of_json schema_of_variant sec second sentences sequence sha sha1 sha2
    shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space split
    split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map string struct
    substr substring substring_index tan tanh time time_bucket time_diff time_from_micros time_from_millis
    time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_micros
    timestamp_millis timestamp_nanos timestamp_seconds tinyint to_base32 to_binary to_char to_csv to_date to_json
    to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar
    to_variant_object transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt try_divide
    try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
    try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number try_to_time
    try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append try_variant_get try_variant_insert
    try_variant_set typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp
    upper url_decode url_encode validate_utf8 variant_array_append variant_delete variant_get variant_insert variant_set
    variant_strip_nulls vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
    weekday weekofyear width_bucket xxhash64 year zeroifnull zip_with
"""
DETERMINISTIC = frozenset(_DETERMINISTIC.split())

# Part of Spark's grammar; its function registry does not have them.
SYNTAX = frozenset(("timestampadd", "timestampdiff"))

# Functions that return the current time without arguments.
NEEDS_ARGUMENTS = frozenset(("unix_timestamp", "to_unix_timestamp"))

# Functions that only a default may call; SQL calls the first ones without parentheses where no column has the name.
WITHOUT_PARENTHESES = frozenset(
    ("current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user")
)
FOR_DEFAULTS = WITHOUT_PARENTHESES | {"curdate", "now", "uuid"}
