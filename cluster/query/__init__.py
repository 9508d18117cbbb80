"""The Solr-style filter language of `fq`, `boost_fq` and facets, and nothing else.

    filter    = sequence
    sequence  = member { [ "OR" | "||" ] member }
    member    = clause { ( "AND" | "&&" ) clause }
    clause    = [ "+" | "-" | "!" | "NOT" ] ( "(" sequence ")" | field ":" value | value | "*:*" | "*" )
    value     = word | phrase | wildcard | regex | range | "(" sequence ")"
    range     = ( "[" | "{" ) bound "TO" bound ( "]" | "}" )
    bound     = word | phrase | "*"
    field     = name { "." name }

A value without a field is allowed only inside a group that has one: `size:("M" OR "S")`. A name inside such a group
may still have another field.

| Filter                                                  | Tree                                                   |
|---------------------------------------------------------|--------------------------------------------------------|
| `brand:Alder`, `brand:"Alder & Sons"`                   | `Term`, `Phrase`                                       |
| `size:("M" OR "S")`, `size:("M" "S")`                   | `Any` of two phrases                                   |
| `rating:[4 TO *]`, `sale_price:{10 TO 20]`              | `Range`, each end with its own bracket                 |
| `attributes.year: [2010 to *]`                          | `Range` of `custom_attributes.year`                    |
| `published_at:[2024-01 TO 2024-02]`, `published_at:2024`| whole periods: to the last millisecond of February     |
| `title:gard*`, `product_id:/story_.+/`                  | `Wildcard`, `Regex`                                    |
| `cover_image:*`, `cover_image:[* TO *]`, `*:*`          | `Exists`, `Exists`, `Everything`                       |
| `a:1 OR b:2 AND NOT c:3`                                | `a or (b and not c)`: NOT, then AND, then OR           |
| `a:1 b:2`                                               | `a or b`                                               |
| `+a:1 b:2 -c:3`                                         | `a and not c`: + must hold, - must not, b is optional  |
| `a:1 b:2 -c:3`                                          | `(a or b) and not c`                                   |
| `-a:1`, `a:1 OR (-b:2)`                                 | `not a`, `a or not b`: a group of - alone means "all   |
|                                                         | but", at any depth                                     |

Explicit AND, OR and NOT are Boolean algebra. A sequence has the meaning of Solr, where OR only separates
clauses, if a member has + or -, or a NOT without an adjacent OR.

The meaning of a value depends on the field and on the record's content (`field_values`, `scalars`). Texts are
equal exactly, numbers and booleans by value. Text fields (title, description, html and the like) match when
they contain every word of the value, case-folded. In text fields, wildcards, expressions and ranges apply to
one word. An array matches if any element matches. A range of numbers also holds for texts that are numbers,
one of dates for texts that are dates; other ranges compare texts by code point.

Every mistake is a `FilterSyntax` with a position and one of these kinds: empty, too_long, too_many_clauses, too_deep,
character, quote, regex, range, escape, group, operator, field, value, number, date, pattern, unsupported. Refused as
unsupported: `{!...}`, `_query_:`, `_val_:`, weights `^2`, fuzzy `~1`, and `<` or `>` before a value.

A filter has at most 32 KB, 1,024 clauses (expensive ones count several times) and 64 levels; see `limits`.

Read in this order in `language`: `tree`, `lexer`, `parser`; `field_values`, `scalars`, `text_analysis`; `patterns`,
`automaton`. Then in `columnar`: `filter_evaluation` with the protocol of columns, `column_store` with its
implementation, `column_cache`, `column_source` and `record_reader`; `field_projection` for `fl`, `value_counts`,
`point_column`.
"""
