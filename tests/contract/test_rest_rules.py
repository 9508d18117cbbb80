"""What the REST interface promises, sentence by sentence, and the tests that would fail if it did not hold.

A table to be read, in the order of the interface's description and in our own words. `RULES` has what is kept,
`DEVIATIONS` what Kiosk does otherwise and why, `ADDITIONS` what it does beyond the description. A name after `>` is a
scenario (`file: name` in the folders rest, shop, history and experiments), any other a test as `file::name`; a name
that exists nowhere fails here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.contract.named_tests import list_tests
from tests.contract.scenario import load

FOLDERS = ("rest", "shop", "history", "experiments")
SHORT = {
    "affiliation": "contract/test_affiliation.py", "generation": "contract/test_generation.py",
    "ask": "contract/test_ask.py", "cdn": "contract/test_behind_cdn.py",
    "confidential": "contract/test_confidential.py", "fuzz": "contract/test_schema_fuzz.py",
    "guide": "contract/test_api_guide.py", "history": "contract/test_history.py",
    "isolation": "contract/test_isolation.py", "mistakes": "contract/test_mistakes.py",
    "secrets": "contract/test_secrets.py", "values": "contract/test_rest_values.py",
    "warnings": "contract/test_field_warnings.py", "writers": "contract/test_writers.py",
    "handler": "unit/deployments/api/http/test_request_handler.py", "errors": "unit/deployments/edge/test_errors.py",
    "limits": "unit/deployments/edge/test_limits.py", "proof": "unit/deployments/edge/test_proof.py",
    "tokens": "unit/deployments/edge/test_tokens.py", "keyring": "unit/deployments/edge/test_keyring.py",
    "bodies": "unit/deployments/api/resources/test_recommendation.py", "user": "unit/cluster/records/test_user.py",
    "product": "unit/cluster/records/test_product.py", "interaction": "unit/cluster/records/test_interaction.py",
    "attributes": "unit/cluster/records/field_types/test_attributes.py",
    "upload": "unit/cluster/records/validation/test_upload.py",
    "deletes": "unit/cluster/records/validation/test_deletes.py",
    "render": "unit/actors/answers/test_render.py",
    "recommender": "unit/actors/recommender/test_recommender.py",
    "rerank": "unit/actors/recommender/rerank/test_rerank.py",
    "cohorts": "unit/actors/recommender/state/test_live_cohorts.py",
    "promises": "unit/actors/search/test_completions_promises.py",
    "quality": "unit/actors/retrieval/autocomplete/test_quality.py",
    "assignment": "unit/actors/experiments/test_assignment.py", "threads": "unit/actors/history/test_threads.py",
    "monitor": "unit/actors/history/test_news_monitor.py", "reference": "house/test_reference.py",
    "up": "unit/deployments/cli/test_up_command.py", "console": "browser/test_console_pages.py",
    "completions": "unit/deployments/api/wire/test_autocomplete_body.py",
    "filters": "unit/cluster/query/columnar/test_filter_matches.py",
}  # fmt: skip

RULES: dict[str, dict[str, tuple[str, ...]]] = {
    "hosts and purpose": {
        "servers and browsers have a host each, both take the same keys and paths": (
            "cdn::test_nothing_that_needs_a_key_comes_from_the_cache",
            "cdn::test_the_list_of_one_visitor_is_never_that_of_another",
            "up::test_the_origin_for_browsers_is_shown_where_it_is_another",
        ),
        "records are uploaded, read and deleted": (
            ">records: a user is uploaded and read back whole", ">records: a product is uploaded and read back bare",
            ">records: several are deleted at once",
        ),
        "interactions are streamed": (">interactions: interactions of all kinds are taken with either key",),
        "a playground to read, environments for tests and for customers, with keys of their own": (
            ">keys: the playground is read-only", ">keys: one environment's key does not open another's data",
            "isolation::test_no_pair_of_app_and_id_ever_crosses",
        ),
    },
    "records": {
        "a user has these fields and no other": (
            "user::test_a_complete_user_is_kept_as_it_was_sent", "user::test_fields_are_strict",
        ),
        "times of a user are moments": ("user::test_times_with_an_offset_are_rewritten",),
        "custom attributes have free names; values are texts or lists of texts": (
            "attributes::test_allowed_values_have_a_scalar_type", "attributes::test_names_may_be_in_any_language",
        ),
        "an upload replaces the whole record": (">records: an upload replaces the whole record",),
        "a product has these fields, translations and custom attributes": (
            "product::test_a_complete_product_is_kept_as_it_was_sent",
            "product::test_every_field_is_exercised_by_the_complete_product",
        ),
        "an unknown field of a record gets 422": (
            "product::test_bad_fields_are_named", "user::test_fields_are_strict",
            ">records: schema errors refuse a whole upload, one message per bad record",
        ),
        "there are 29 types of interactions": (
            "interaction::test_there_are_29_types", "interaction::test_an_unknown_type_gets_the_list_of_all",
        ),
        "bulk writes and deletes answer with a task": (
            ">records: a user is uploaded and read back whole", ">records: several are deleted at once",
        ),
        "an answer record has its twelve fields": (
            "ask::test_a_question_is_answered_with_sources_that_hold_it", "fuzz::test_every_answer_is_as_documented",
        ),
        "affiliation_products hold products of partners, never others, none beside a refusal": (
            "affiliation::test_products_of_partners_stand_beside_an_answer_and_no_others",
            "affiliation::test_a_refused_answer_and_an_app_without_partners_have_none",
        ),
        "a variant has id, name, slug, status and configuration": (
            ">events: an event gives a variant at the top level",
        ),
        "most replies are message and data; message is success": (
            ">records: a user is uploaded and read back whole",
            ">recommendation: lists of products come with took and service id",
        ),
        "a product is read without the envelope": (">records: a product is uploaded and read back bare",),
        "an experiment event answers at the top level": (">events: an event gives a variant at the top level",),
    },
    "states": {
        "an unfinished answer says not_finished, a finished one success": (
            "ask::test_a_question_is_answered_with_sources_that_hold_it",
        ),
        "the status of a variant is Active": (">events: an event gives a variant at the top level",),
    },
    "users": {
        "an upload answers with its task": (">records: a user is uploaded and read back whole",),
        "a schema error in any record: 422, and nothing is stored": (
            ">records: schema errors refuse a whole upload, one message per bad record",
        ),
        "several users are deleted by id": (
            ">records: several are deleted at once", "deletes::test_ids_are_read_once_each_and_in_order",
        ),
        "one user is deleted with the message deleted": (
            ">records: a deleted user is gone, and deleting again is no error",
        ),
        "an id in a path is percent-encoded": (">wire: ids in paths may hold anything, encoded or not",),
        "a user is read; an unknown one is not found": (">records: a user is uploaded and read back whole",),
        "an id has at most 512 characters": (">records: an id in a path has at most 512 characters",),
        "the status of a task is read": (
            ">records: a waiting task says so", ">records: a task is known under its own kind only",
        ),
        "a 200 may hold errors of single records, each with its index": (
            ">records: a custom attribute of another type fails its record alone",
            "attributes::test_a_later_record_of_the_batch_that_differs_fails_alone",
        ),
    },
    "products": {
        "a product is read by its id, of at most 512 characters; else 404": (
            ">records: an unknown product is not found, before and after the first upload",
            ">records: an id in a path has at most 512 characters",
        ),
        "one product is deleted with its task": (">records: a deleted product is gone",),
        "several are deleted with the message deleted": (">records: several are deleted at once",),
        "the status of a task": (">records: a task is known under its own kind only",),
        "all ids are listed; without a data set the 404 repeats its status": (
            ">records: ids are listed sorted, products also by type",
            "errors::test_the_missing_data_set_repeats_its_status",
        ),
        "a fault is 500 with a message": ("handler::test_a_fault_inside_is_one_sentence_and_one_log_line",),
        "a deleted product reads as 404": (">records: a deleted product is gone",),
    },
    "recommendations: shared parameters": {
        "data has took in milliseconds and service_id": (
            ">recommendation: lists of products come with took and service id",
        ),
        "an invalid body gets 422 with loc, msg and type": (
            ">recommendation: a missing field is named as in the published example",
            ">recommendation: bounds and types are kept",
        ),
        "all are taken": (
            ">recommendation: every shared parameter is taken", "bodies::test_every_shared_parameter_arrives",
        ),
        "engine_id: the default engine when absent": (
            "bodies::test_an_empty_body_has_the_defaults_of_the_specification",
            ">recommendation: an unknown engine is not found",
        ),
        "user_id or anonymous_id makes it personal": (
            "recommender::test_a_gardener_is_shown_garden_things_and_a_cook_knives",
            "recommender::test_a_new_reader_gets_what_trends",
        ),
        "user_hash is needed with a publishable key": (">readers: a user needs a hash with a publishable key",),
        "user_cohort: values of a profile, numbers and ages too": (
            "cohorts::test_a_cohort_sees_first_what_it_takes_before_any_training",
            "cohorts::test_numbers_form_cohorts", "cohorts::test_ages_form_cohorts_by_band",
        ),
        "type, fq, exclude and geo restrict": (">recommendation: type, fq, exclude and geo restrict",),
        "one product of a group unless dedupe is off, the likeliest one": (
            "recommender::test_one_variant_of_a_product_unless_dedupe_is_off",
            "recommender::test_the_variant_is_the_one_most_likely_of_interest",
        ),
        "simulated interactions count and are not stored": (
            "recommender::test_simulated_interactions_count_like_real_ones",
            "bodies::test_simulated_interactions_become_events",
        ),
        "fl: product_id always, wildcards, * is all, [] the id only": (
            ">recommendation: fl shows fields, wildcards and nested names",
        ),
        "excluded products never come": ("recommender::test_excluded_products_never_return",),
        "custom_context: the seven kinds of values": (
            ">recommendation: every shared parameter is taken",
            ">recommendation: session variables named as product fields speak",
        ),
        "boosting_tags apply stored rules whatever their criteria": (
            ">recommendation: stored rules apply by tag, by name and by session, in every engine answer",
        ),
        "fq is Solr's syntax and changes no order": (
            "recommender::test_a_filter_does_not_change_the_order",
            "guide::test_every_filter_of_the_table_finds_something_and_not_everything",
        ),
        "attributes.<name> filters by a field of the caller's own": (
            "filters::test_a_filter_finds",
        ),
        "boost_fq raises what matches": (">recommendation: boosts come first or into their positions and say so",),
        "boost_positions count from 0; absent: boosted products first": (
            "rerank::test_boosts_with_positions_fill_their_slots_and_others_keep_their_order",
            "rerank::test_boosts_without_positions_come_first_in_ranking_order",
        ),
        "boost_rule_name stands in _boosted_rules": ("rerank::test_boosted_products_say_so_and_name_their_rules",),
        "several boost_rules apply together": ("rerank::test_rules_with_and_without_positions_work_together",),
        "geo: kilometres or miles, miles by default, field location by default": (
            ">recommendation: type, fq, exclude and geo restrict",
            "values::test_a_distance_is_in_miles_by_default",
        ),
        "diversification: best-effort distance of equal values": (
            "rerank::test_equal_values_keep_their_distance",
            "rerank::test_an_impossible_distance_leaves_the_order_unchanged",
        ),
    },
    "recommendations: the three endpoints": {
        "categories: rows, products of each, 0 is none, root paths and any parent": (
            ">recommendation: categories of a level, of a path, of any parent",
        ),
        "categories hold a path, a total and products; fq holds for each": (
            ">recommendation: groups hold what the specification names",
            ">recommendation: categories of a level, of a path, of any parent",
        ),
        "attributes: the field is required": (
            ">recommendation: a missing field is named as in the published example",
        ),
        "attributes: values first, values never, defaults 5 and 2": (
            ">recommendation: values of a field, wanted ones first, unwanted ones never",
            "bodies::test_each_endpoint_has_specific_fields",
            "values::test_the_defaults_of_the_interface_are_those_of_the_bodies",
        ),
        "trending: rows 5, dithering, pages": (
            ">recommendation: rows, start and plain pages of one list",
            ">recommendation: a pagination id never repeats a product and ends",
            "rerank::test_dithering_one_is_off_and_more_moves_more", "values::test_dithering_nought_is_off",
        ),
    },
    "autocomplete": {
        "q is required, and its last blank counts": (
            ">autocomplete: what may not be asked is told with its place",
            "promises::test_a_blank_at_the_end_finishes_the_word",
        ),
        "the shared parameters": (
            "promises::test_profile_and_boosts_order_the_matches_and_never_change_them",
            "promises::test_filters_exclude_texts_however_well_they_match",
        ),
        "completion_fields: title by default, fields, attributes, historical queries": (
            ">autocomplete: completions come by field, every field asked for is there",
            "promises::test_attributes_complete_single_values_and_lists_under_either_name",
        ),
        "min_query_users counts different users; below 5 is discouraged": (
            "promises::test_queries_count_users_and_not_repetitions",
            "mistakes::test_few_users_behind_a_completion_are_warned_of",
        ),
        "the primary language of the environment, where none is given": (
            "completions::test_without_a_language_the_environments_default_applies_and_others_match",
            "promises::test_a_language_completes_the_fields_of_that_language",
        ),
        "up to four typos": (
            "promises::test_the_budget_of_typos_grows_with_what_was_typed",
            "quality::test_films_match_in_spite_of_typos",
        ),
        "took, service_id, completions by field": (
            ">autocomplete: completions come by field, every field asked for is there",
        ),
        "marks stand around what was not typed": (
            "promises::test_marks_stand_around_what_was_not_typed_typos_or_not",
        ),
        "a title brings its product": ("promises::test_a_title_brings_its_product_for_a_direct_link",),
    },
    "experiments": {
        "an event by id or slug; all fields are optional": (
            ">events: id and slug name the same experiment", ">events: who names nobody is a visitor of this day",
        ),
        "variant_name forces a variant": (">events: a forced variant sticks",),
        "timestamp is a moment and now by default": (
            "assignment::test_the_event_time_counts_unless_it_is_implausible",
        ),
        "took, in_experiment and variant": (">events: an event gives a variant at the top level",),
        "a wrong key in the endpoint's own words": (
            ">events: a missing or unknown key is told in this endpoint's own words",
        ),
        "an unknown variant in its words": (">events: an unknown variant is not found and changes nothing",),
        "malformed JSON in the shape of this endpoint": (
            ">events: bad JSON is told with its place", ">events: a body of the wrong shape is told field by field",
        ),
    },
    "questions": {
        "an answer is read by its id": ("ask::test_a_question_is_answered_with_sources_that_hold_it",),
        "404 for an unknown id and for another app's": ("ask::test_a_question_of_another_app_answers_404",),
        "422 for what is no id": ("ask::test_an_id_that_is_no_uuid_is_refused",),
        "a question names its user, or its token does": (
            "ask::test_only_proven_readers_get_a_history", "ask::test_a_token_that_names_another_reader_is_refused",
        ),
    },
    "history": {
        "all need a signed-in user": (">threads: with a publishable key the reader has to be signed in",),
        "subscribe is idempotent; a foreign thread is 404": (
            ">threads: subscribing is asked for, may be asked for twice, and ends",
            ">threads: a thread of another reader is answered like one that does not exist",
        ),
        "has_new when any thread has an update": (
            ">threads: dismissing every row turns the account's indicator off",
        ),
        "dismiss_thread clears one, dismiss_overall the account only": (
            ">threads: dismissing overall leaves the rows, and a later update turns it on again",
            "threads::test_an_update_raises_both_indicators_and_each_is_dismissed_alone",
        ),
        "significance is judged before anything is appended": (
            "monitor::test_insignificant_content_starts_no_question",
            "monitor::test_significant_content_appends_an_update_and_raises_the_indicators",
        ),
        "the row of a thread with news has has_new": (
            ">threads: threads are listed by their activity, and say everything a row needs",
        ),
        "500 when the store can't be read or written": (
            "history::test_while_the_store_is_away_every_call_is_a_fault_and_changes_nothing",
        ),
    },
    "keys": {
        "keys are made and revoked in the dashboard": ("console::test_somebody_makes_an_app_and_revokes_a_key",),
        "writes, deletes and states of tasks need the secret key": (">keys: a publishable key may not touch records",),
        "one secret and one publishable key; a revoked one is refused": (
            "keyring::test_a_key_gives_its_app_and_the_secrets_of_the_app",
            "keyring::test_a_revoked_key_is_refused_within_a_second",
        ),
        "the secret key goes into the header or the query": (">keys: the secret key works in header and query",),
        "the publishable key goes into the query": (">keys: the publishable key works in query and header",),
        "the publishable key sends interactions and reads": (
            ">interactions: interactions of all kinds are taken with either key",
            ">search: both keys search, the publishable one only for a reader who proves to be one",
        ),
        "403 at an endpoint for servers, in these words": (">keys: a publishable key may not touch records",),
        "403 for what looks automated, in these words": (
            ">keys: a publishable key from a robot is refused", ">keys: reach is told before the robot rule",
        ),
        "401 for an unknown key, in these words": (
            ">keys: an unknown key is refused wherever it stands", ">keys: a request without a key is refused",
            "mistakes::test_a_header_of_a_401_has_its_reason",
        ),
    },
    "identity": {
        "a visitor sends an anonymous_id": ("writers::test_a_visitor_needs_no_proof_and_is_marked_as_a_stranger",),
        "user_hash is hex HMAC-SHA256 under the secret key, in any case": (
            "proof::test_the_digest_is_hmac_sha256_of_the_id_in_hex",
            ">readers: a hash of another environment's secret is invalid",
        ),
        "tokens are HS256 under the secret key; rotation ends them": (
            "tokens::test_a_token_of_the_usual_library_names_its_reader",
            "tokens::test_a_token_that_was_verified_before_still_expires_and_needs_a_live_secret",
        ),
        "a token in the header or in jwt_token; the header wins": (
            "values::test_a_token_may_stand_in_the_body_of_every_query",
            "values::test_the_token_of_the_header_wins",
            ">threads: a token may stand in the body where no header can be sent",
        ),
        "no token is logged": ("secrets::test_canaries_in_every_place_leave_no_trace",),
        "the token's user and type fill in, and must match": (
            "tokens::test_a_body_that_names_another_reader_does_not_match",
            ">readers: a token stands for the hash and names the reader",
        ),
        "user_id before sub": ("tokens::test_user_id_wins_over_sub_and_sub_does_when_alone",),
        "six user types": ("tokens::test_every_user_type_of_the_list_is_accepted",),
        "15 minutes to an hour are a good lifetime": (
            "values::test_the_page_of_identities_names_the_lifetime_of_the_interface",
        ),
        "exp and nbf are checked, iat, iss and aud are not": (
            "tokens::test_times_are_checked_to_the_second_without_leeway",
            "tokens::test_a_token_of_the_usual_library_names_its_reader",
        ),
        "the history needs a user: 401 in these words": (
            ">threads: with a publishable key the reader has to be signed in",
        ),
    },
    "errors": {
        "a message; detail for validation; errors and data for uploads": (
            "errors::test_most_errors_are_a_message_in_every_family", "errors::test_each_family_has_a_specific_422",
            "guide::test_errors_have_the_shapes_of_the_page",
        ),
        "a refused upload names each bad record": ("upload::test_each_bad_record_gets_one_message_in_order",),
        "generation without template, instructions and task_id": (
            ">generation: what lacks all of template, instructions and task_id is told so",
        ),
        "with a language model templates, instructions and task_id work; without one the body is 404": (
            "generation::test_a_template_writes_from_the_products_and_the_task_id_fetches_it",
            "generation::test_instructions_reach_the_model_and_nothing_unsupported_comes_back",
            ">generation: nothing is set up that could be generated from",
        ),
        "400 for what is malformed": (">wire: what is no JSON is malformed",),
        "404 for ids of other apps": (
            "isolation::test_a_foreign_id_is_answered_like_an_unknown_one",
            "isolation::test_a_foreign_task_is_answered_like_an_unknown_one",
        ),
        "422 for an unknown field": (
            ">recommendation: an unknown field is refused", "mistakes::test_a_message_names_the_right_field_or_type",
        ),
        "429 over the rate": ("handler::test_too_many_requests_say_when_to_come_back",),
        "500 in these words": ("errors::test_a_fault_is_logged_once_and_reveals_nothing",),
        "Request timeout. for uploads and deletes": ("handler::test_an_upload_that_takes_too_long_is_a_timeout",),
        "the seven failures of a token": (
            ">readers: the failures of a token have their words",
            "tokens::test_an_unknown_user_type_is_named_at_the_end",
        ),
        "an unknown or expired task is 404": (">records: a task is known under its own kind only",),
        "engine is not found": (
            ">recommendation: an app without products has no engine",
            ">search: before the first product there is no engine to search in",
        ),
        "no such index": (">records: a user of an app nobody uploaded users to has no index",),
        "field is not found": (">aggregation: a field no record carries is not found",),
        "an accepted upload is readable once its task is done": (
            ">records: a waiting task says so", ">records: an empty upload is a task that is done",
        ),
    },
    "limits": {
        "a rate for each key; writes are stricter": (
            "limits::test_keys_do_not_spend_each_others_tokens", "limits::test_writes_have_a_separate_stricter_bucket",
        ),
        "exponential backoff from a few seconds on": ("values::test_the_guide_asks_for_the_backoff_of_the_interface",),
        "categories of a user come within 100 ms, 20 products of each within 200 ms": (
            "values::test_categories_of_a_user_come_in_the_time_of_the_interface",
        ),
        "100 records a call run inside the limit": ("values::test_a_hundred_records_a_call_are_taken",),
    },
    "versioning": {
        "every path of the API begins with /v1": ("values::test_every_path_has_the_version_in_front",),
        "every field of a request stands in the reference": ("reference::test_every_field_of_a_request_has_a_row",),
    },
}  # fmt: skip

DEVIATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "limits depend on plan and region": (
        "Kiosk runs in an installation of its owner, which has neither plans nor regions: limits are set for each app "
        "and hold for each key",
        ("limits::test_new_limits_of_an_app_hold_at_once",),
    ),
    "user_hash for an anonymous_id alone": (
        "the next sentence lets a visitor send key and anonymous_id only; the switch strict_user_hash asks for a hash",
        ("handler::test_strict_apps_want_a_hash_for_visitors_too",),
    ),
    "403 for what looks automated": (
        "production refuses; new apps for development log, because tests and SDKs look automated",
        ("handler::test_the_bot_rule_can_be_off_or_only_logged",),
    ),
    "other claims of a token join the metadata of a question": (
        "only the asker's token and the secret key see them, because anybody who has the id may poll the answer",
        ("values::test_claims_of_a_token_are_shown_to_their_user_and_to_servers",),
    ),
    "a refused answer finishes with success": (
        "it finishes with no_answer, so that a page can tell a refusal from an answer without reading its text",
        ("ask::test_what_the_archive_does_not_hold_is_refused_without_sources",),
    ),
    "dithering is an integer": (
        "fractions are taken too; 0 and 1 are off", ("values::test_dithering_nought_is_off",),
    ),
    "up to four typos, in every text": (
        "short texts have fewer, else nearly every title would match",
        ("promises::test_the_budget_of_typos_grows_with_what_was_typed",),
    ),
    "the user's experiments answer to either key": (
        "the secret key only, until the switch publishable_experiments is on",
        (">events: the publishable key is for elsewhere", ">events: an app may let the publishable key in"),
    ),
}  # fmt: skip

ADDITIONS: dict[str, tuple[str, ...]] = {
    "tasks have states": (">records: a waiting task says so", ">records: an empty upload is a task that is done"),
    "405 names the right methods": (">wire: a wrong method says which ones are right",),
    "409 while the same Idempotency-Key runs": (">idempotency: a write with an Idempotency-Key happens once",),
    "413 for a body that is too large": (">wire: a request over the size limit is refused by its announced length",),
    "503 with Retry-After while a part is away": ("handler::test_a_store_that_is_away_is_503_with_a_hint",),
    "warnings beside an answer that is probably not what was meant": (
        "warnings::test_a_filter_on_an_absent_field_gives_a_message",
        "mistakes::test_a_field_to_return_that_no_product_has_is_warned_of",
        "mistakes::test_an_event_of_an_unknown_product_or_without_a_user_is_warned_of",
        "mistakes::test_a_secret_key_in_the_address_is_warned_of",
    ),
    "a path that does not exist names a similar one": (
        "mistakes::test_a_path_that_does_not_exist_names_a_similar_one",
    ),
    "a token without exp ends after a day in production": ("writers::test_a_token_without_an_end_is_good_for_a_day",),
    "images of an answer: pictures of the products that it cites": (
        "render::test_pictures_of_cited_products_come_along",
    ),
    "blocked_reason of an answer, while a quota is spent": ("ask::test_the_answer_reports_a_spent_daily_quota",),
    "suggested_queries beside historical_queries": ("promises::test_successful_queries_of_the_log_are_suggested",),
    "event_id of interactions, so that reports count a repeated one once": (
        "interaction::test_a_complete_interaction_is_kept_as_it_was_sent",
    ),
    "fields that browsers can't read": ("confidential::test_what_is_confidential_is_left_out",),
}  # fmt: skip

ALL: dict[str, tuple[str, ...]] = {
    **{f"{section}: {rule}": tests for section, rules in RULES.items() for rule, tests in rules.items()},
    **{f"otherwise: {rule}": tests for rule, (_, tests) in DEVIATIONS.items()},
    **{f"beyond: {rule}": tests for rule, tests in ADDITIONS.items()},
}


@cache
def _scenarios() -> frozenset[str]:
    folder = Path(__file__).parent
    return frozenset(scenario.name for name in FOLDERS for scenario in load(folder / name))


@pytest.mark.parametrize("rule", list(ALL))
def test_a_rule_has_tests(rule: str) -> None:
    assert ALL[rule]
    for name in ALL[rule]:
        if name.startswith(">"):
            assert name.removeprefix(">") in _scenarios(), name
        else:
            file, _, test = name.partition("::")
            assert test in list_tests(SHORT[file]), name


def test_every_file_of_the_table_is_used() -> None:
    used = {name.partition("::")[0] for tests in ALL.values() for name in tests if not name.startswith(">")}
    assert used == set(SHORT)


def test_every_deviation_has_its_reason() -> None:
    assert all(len(reason) > 30 for reason, _ in DEVIATIONS.values())
