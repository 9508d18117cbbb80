"""What the archive's interface promises, rule by rule, and the tests that would fail if it did not hold.

A table to be read: first the rows of the specification of `POST /mcp`, then what real clients need, numbered,
then the faults that are drilled. A name after `row:` is a row of test_mcp.py, any other a test as
`file::name`; a name that exists nowhere fails here.
"""

from __future__ import annotations

import pytest

from tests.contract.named_tests import list_tests
from tests.contract.test_mcp import ENVELOPE, METHODS, TRANSPORT

SHORT = {
    "mcp": "contract/test_mcp.py", "answers": "contract/test_mcp_answers.py",
    "discovery": "contract/oauth/test_discovery.py", "registration": "contract/oauth/test_registration.py",
    "authorization": "contract/oauth/test_authorization.py", "tokens": "contract/oauth/test_tokens.py",
    "revocation": "contract/oauth/test_revocation.py", "attacks": "contract/oauth/test_attacks.py",
    "browser": "contract/oauth/test_browser.py", "whole": "contract/oauth/test_whole_way.py",
    "tools": "unit/deployments/archive/test_tools.py", "issued": "unit/deployments/archive/test_archive_tools.py",
    "jsonrpc": "unit/deployments/archive/mcp/test_jsonrpc.py",
    "card": "unit/deployments/archive/test_discovery_pages.py",
    "citation": "unit/deployments/archive/test_citation_rules.py",
    "quoting": "unit/deployments/archive/test_text_fence.py",
    "redirects": "unit/deployments/archive/oauth/test_redirects.py",
    "signing": "unit/deployments/archive/oauth/test_signing.py",
    "management": "contract/oauth/test_management.py",
    "nobody": "unit/deployments/archive/oauth/test_asks_nobody.py",
    "clients": "clients/test_clients.py", "conformance": "clients/test_conformance.py",
    "soak": "drills/test_archive_soak.py", "flood": "drills/test_oauth_flood.py",
}  # fmt: skip

SPECIFICATION: dict[str, tuple[str, ...]] = {
    "request: jsonrpc is 2.0": ("row:no jsonrpc", "row:jsonrpc '1.0'"),
    "request: id is a string or an integer": ("row:no id", "row:the id None", "row:the id 1.5"),
    "request: method is a string": ("row:no method", "row:the method 7"),
    "request: params is an object, needed by initialize and tools/call": (
        "row:params []", "row:initialize without params", "row:initialize without anything",
        "row:initialize without capabilities", "row:tools/call without params",
    ),
    "response: the id comes back, value and type": (
        "row:the id 0 comes back", "row:the id '0' comes back", "jsonrpc::test_an_id_of_any_size_comes_back_as_it_was",
    ),
    "response: exactly one of result and error": ("mcp::test_every_row_is_answered_exactly",),
    "ask_archive: question is needed": ("row:no arguments", "row:the question 7", "row:the question ''"),
    "ask_archive: context": ("row:context that is no text", "answers::test_context_and_question_reach_the_archive"),
    "ask_archive: skill_used": (
        "row:a skill that is no text",
        "answers::test_every_call_is_noted_with_client_skill_question_articles_and_refusal",
    ),
    "get_archive_article: product_id and offset are needed": (
        "row:all that is missing at once", "row:the offset '61'", "row:a product that is no text",
    ),
    "get_archive_article: its result": ("answers::test_an_article_comes_with_its_citation_and_licence",),
    "get_archive_article: citation_format is a markdown link": ("citation::test_a_link_can_not_be_broken_or_bent",),
    "a snippet carries product_id and offset": (
        "answers::test_a_snippet_has_the_fields_of_an_agent_and_omits_unset_ones",
    ),
    "initialize: names the version that is spoken": (
        "answers::test_initialize_speaks_one_version_whatever_is_proposed",
    ),
    "ping: an empty reply": ("row:ping",),
    "tools/list: the two tools": (
        "answers::test_tools_are_listed_on_one_page",
        "tools::test_tools_have_the_arguments_of_the_specification",
    ),
    "tools/call: content blocks": ("answers::test_text_and_structured_content_are_the_same_and_no_member_is_null",),
    "notifications/initialized: 202 and nothing": ("row:an initialized client",),
    "200 for a call": ("row:ping", "row:an unknown tool"),
    "202 for any notification": ("row:any notification", "row:a broken notification"),
    "401 with the metadata's address": ("row:no token", "row:a made-up token"),
    "405 for other methods, with Allow": (
        "row:GET is no method of the endpoint", "row:HEAD is answered without a body",
    ),
    "rule 1: only pairs that were returned": (
        "row:the made-up offset 61", "issued::test_no_made_up_offset_of_a_hundred_thousand_is_right",
    ),
    "rule 2: ask, get, cite": ("whole::test_a_client_comes_from_an_address_to_an_answer",),
    "rule 3: -32603 in a 200": ("row:the unknown method server/discover", "row:an unknown tool", "row:no arguments"),
    "authentication: OAuth 2.1, PKCE S256, dynamic registration": (
        "whole::test_a_client_comes_from_an_address_to_an_answer",
    ),
    "authentication: the five addresses": (
        "discovery::test_the_resource_describes_itself_wherever_clients_look",
        "discovery::test_the_authorization_server_describes_itself",
    ),
    "events: a GET is 405": ("row:a GET for an event stream is 405",),
    "-32700 with the parser's message": ("row:no JSON",),
    "-32603 says which argument": ("row:all that is missing at once",),
    "-32603 for faults of ours, with data": ("answers::test_a_fault_of_ours_tells_a_request_id_and_nothing_else",),
    "bodies of 401 and 405": ("row:no token", "row:GET is no method of the endpoint"),
    "versioning: three versions in the header": (
        "row:version 2024-11-05 in the header", "row:version 2025-06-18 in the header",
        "row:version '2025-11-25' in the header",
    ),
    "versioning: names and schemas are stable within a major version": (
        "tools::test_the_tools_of_a_release_have_only_gained",
        "tools::test_a_lost_name_or_a_new_demand_is_reported",
    ),
    "versioning: a removal is announced in both descriptions, 30 days ahead, with its date": (
        "card::test_a_removal_is_announced_wherever_the_interface_is_described",
        "tools::test_a_deprecated_argument_is_announced_in_its_tool_and_in_its_schema",
        "tools::test_a_deprecation_of_less_than_30_days_can_not_be_written_down",
        "tools::test_a_deprecated_tool_names_its_removal_date_and_works_until_then",
        "tools::test_nothing_is_deprecated_at_present",
    ),
    "the endpoint stands in the OpenAPI document": (
        "card::test_the_endpoint_for_agents_stands_in_the_openapi_document",
    ),
    "what the archive covers is its publisher's word": (
        "card::test_the_subjects_are_those_of_the_publisher",
        "card::test_an_app_of_the_publisher_announces_no_subjects_that_nobody_set",
        "tools::test_the_subjects_of_an_archive_stand_in_its_tools_description",
    ),
    "the server card and llms.txt": (
        "card::test_the_card_tells_the_live_configuration_to_everybody",
        "card::test_the_guide_names_every_address_tool_and_the_licence",
    ),
}  # fmt: skip

CLIENTS: dict[str, tuple[str, ...]] = {
    "2.1 order: method, origin, token, body": (
        "row:a GET without a token is 405, never 401", "row:403 comes before 401",
        "row:401 comes before the body is read",
    ),
    "2.2/1 405 for all other methods": ("row:DELETE is no method of the endpoint",),
    "2.2/2 405 for an event stream": ("row:a GET for an event stream is 405",),
    "2.2/3 no WWW-Authenticate on a 405": ("mcp::test_every_row_is_answered_exactly",),
    "2.2/4 the exact 401": ("row:no token",),
    "2.2/5 scheme in any letters, token only in the header": (
        "row:the scheme in other letters", "row:a token in the query",
    ),
    "2.2/6 application/json": ("row:Accept a/b",),
    "2.2/7 one of result and error": ("mcp::test_every_row_is_answered_exactly",),
    "2.2/8 202 before initialize": ("row:an initialized client",),
    "2.2/9 no order of methods": ("row:ping",),
    "2.2/10 no session header, those sent are ignored": ("row:headers of sessions and streams",),
    "2.2/11 any Accept gets JSON": ("row:Accept text/event-stream",),
    "2.2/12 ping is {}": ("row:ping with empty params",),
    "2.2/13-15 initialize has all members, tools, a known version": (
        "answers::test_initialize_speaks_one_version_whatever_is_proposed",
    ),
    "2.2/16-17 schemas clients accept, no nextCursor": (
        "tools::test_descriptions_hold_what_clients_insist_on", "answers::test_tools_are_listed_on_one_page",
    ),
    "2.2/18-19 structured content fits its schema": ("answers::test_results_fit_the_schemas_that_are_announced",),
    "2.2/20 messages name what is wrong": ("row:all that is missing at once",),
    "2.2/21 _meta and unknown members": ("row:unknown members",),
    "2.2/22 server/discover is just unknown": ("row:the unknown method server/discover",),
    "2.2/23 unknown arguments and nulls": ("tools::test_unknown_arguments_are_ignored_and_null_is_absent",),
    "2.2/24 a pair belongs to the person": (
        "answers::test_a_pair_belongs_to_the_person_not_to_token_client_or_process",
        "answers::test_somebody_elses_pair_reads_as_never_returned",
        "answers::test_an_article_that_is_gone_reads_as_never_returned",
    ),
    "2.2/25 hazards of parsers": (
        "row:NaN", "row:100,000 brackets", "row:5,000 digits", "row:a lone surrogate", "row:bad UTF-8", "row:nothing",
        "row:the id True", "answers::test_any_bytes_are_answered_by_json_rpc",
    ),
    "3.2 metadata where clients look, exact, without nulls": (
        "discovery::test_the_resource_describes_itself_wherever_clients_look",
        "discovery::test_the_authorization_server_describes_itself",
        "discovery::test_no_document_holds_a_null_and_head_and_preflight_work",
    ),
    "3.2 no version check there": ("discovery::test_oauth_endpoints_ignore_the_protocol_version",),
    "3.2 404 for what does not exist": ("discovery::test_unknown_paths_answer_404",),
    "3.2 addresses from the configuration, never from headers": (
        "discovery::test_no_header_changes_a_configured_address",
        "discovery::test_without_a_configured_address_only_loopback_is_believed",
    ),
    "4.1 registration echoes, without nulls": ("registration::test_real_clients_get_an_id_and_what_they_sent_back",),
    "4.1 secrets for confidential clients": ("registration::test_a_confidential_client_gets_a_new_secret",),
    "4.1 addresses taken and refused": (
        "registration::test_addresses_of_real_clients_are_taken",
        "registration::test_addresses_that_lead_astray_are_refused",
    ),
    "4.1 limits": (
        "registration::test_a_body_over_20_kb_is_refused_while_it_arrives",
        "attacks::test_programs_and_pages_have_limits_too",
    ),
    "4.1 durable, an id for every registration": (
        "registration::test_every_registration_gets_a_new_client_id",
        "revocation::test_a_restart_is_not_noticed",
    ),
    "4.1 registrations are managed by whoever holds their token (RFC 7592)": (
        "management::test_a_registration_reads_back_as_it_was_answered",
        "management::test_an_update_replaces_everything_and_is_in_force_at_once",
        "management::test_a_removal_takes_the_client_its_grants_and_their_tokens",
        "management::test_nobody_manages_with_another_token",
    ),
    "4.2 no redirect for unknown clients and addresses": (
        "authorization::test_only_the_person_sees_the_error_of_an_unknown_client",
        "authorization::test_an_address_that_was_not_registered_gets_no_redirect",
        "authorization::test_who_asks_can_not_stand_there_twice",
    ),
    "4.2 other errors go to the client, with state and iss": (
        "authorization::test_the_client_receives_every_other_fault",
        "authorization::test_a_parameter_twice_is_an_invalid_request",
    ),
    "4.2 asking is repeatable, the form is answered by 303": (
        "authorization::test_answers_follow_the_form_with_303_and_asking_is_repeatable",
    ),
    "4.2 loopback ports are free, all else is byte for byte": (
        "authorization::test_a_loopback_address_matches_with_any_port",
        "authorization::test_a_port_of_another_host_is_part_of_its_address",
        "redirects::test_two_addresses_match_when_equal_or_alike_but_for_a_loopback_port",
    ),
    "4.2 state byte for byte, queries kept": (
        "authorization::test_state_comes_back_byte_for_byte",
        "authorization::test_the_answer_is_hung_onto_a_query_that_is_there",
    ),
    "4.2 resource, scope and prompt as clients send them": (
        "authorization::test_what_clients_add_or_leave_out_is_no_fault",
    ),
    "4.3 the token answer": ("tokens::test_an_answer_has_exactly_what_clients_rely_on",),
    "4.3 refusals by their words": (
        "tokens::test_refusals_have_their_words_and_burn_the_code",
        "tokens::test_a_confidential_client_without_its_secret_is_no_client",
    ),
    "4.3 without resource": ("tokens::test_a_request_without_resource_is_bound_to_the_only_one",),
    "4.4 rotation with a grace, then theft": (
        "tokens::test_the_refresh_token_before_is_forgiven_for_a_minute",
        "tokens::test_an_old_refresh_token_ends_the_whole_family",
        "tokens::test_a_refused_refresh_uses_nothing_up",
        "tokens::test_refresh_tokens_slide_for_thirty_days",
    ),
    "5/1 redirects exact, first": ("authorization::test_an_address_that_was_not_registered_gets_no_redirect",),
    "5/2 codes": (
        "tokens::test_codes_are_256_random_bits", "tokens::test_a_code_is_good_for_a_minute",
        "tokens::test_of_a_hundred_exchanges_at_once_one_wins",
        "tokens::test_a_replayed_code_ends_everything_it_produced",
    ),
    "5/3 PKCE": (
        "signing::test_the_example_of_the_standard_is_proven_and_its_neighbours_are_not",
        "authorization::test_the_client_receives_every_other_fault",
    ),
    "5/4 a refresh token is no access token": ("tokens::test_nothing_but_an_untouched_access_token_opens",),
    "5/5 audience": ("tokens::test_an_access_token_is_bound_to_its_resource",),
    "5/6 origins compared whole": (
        "row:origin https://news.example.com.evil.example", "authorization::test_forms_from_other_sites_are_refused",
    ),
    "5/7 the consent page": (
        "authorization::test_a_form_is_good_only_in_the_browser_it_was_shown_in",
        "authorization::test_no_page_can_be_framed_kept_scripted_or_made_to_load_anything",
        "authorization::test_nothing_a_client_or_caller_sends_is_shown_as_markup",
        "authorization::test_the_person_sees_where_the_answer_goes",
        "authorization::test_nobody_is_allowed_without_signing_in_and_approving",
        "authorization::test_cookies_are_out_of_reach_of_scripts_and_other_sites",
        "browser::test_a_person_connects_a_client_on_the_same_machine",
    ),
    "5/8 iss on success and error": ("authorization::test_the_client_receives_every_other_fault",),
    "5/9 hashed at rest, never logged": (
        "attacks::test_what_rests_in_the_store_opens_nothing", "attacks::test_no_log_line_holds_a_secret_or_a_query",
    ),
    "5/10 rate limits": (
        "attacks::test_guessing_is_stopped_before_the_password_is_looked_at",
        "attacks::test_programs_and_pages_have_limits_too",
    ),
    "5/11 https beyond loopback": ("discovery::test_a_plain_address_beyond_loopback_is_refused",),
    "5/12 metadata from the configuration": ("discovery::test_no_header_changes_a_configured_address",),
    "D1 always the same version": ("answers::test_initialize_speaks_one_version_whatever_is_proposed",),
    "D2 unsupported version header": ("row:version '2025-11-25' in the header",),
    "D3 foreign origin": ("row:a stranger's page",),
    "D4 preflights": ("row:a preflight of an allowed page", "row:a preflight of a stranger's page"),
    "D5 no id": ("row:no id",),
    "D6 batches": ("row:a batch", "row:an empty batch"),
    "D7 argument errors are JSON-RPC errors": ("row:no arguments",),
    "D8 too large, too many": (
        "row:a megabyte too much", "answers::test_calls_beyond_the_bound_get_a_retry_answer",
        "answers::test_without_a_rule_a_person_has_twenty_calls_a_second",
    ),
    "D9 a slash at the end": ("row:a slash at the end",),
    "D10 answers of a client": ("row:an answer of the client",),
    "revocation is heard within a second": (
        "revocation::test_every_step_may_meet_another_replica_and_a_revocation_is_heard_within_a_second",
    ),
    "unchanged clients": (
        "clients::test_the_python_sdk_goes_the_whole_way", "clients::test_the_typescript_sdk_goes_the_whole_way",
        "clients::test_fastmcp_goes_the_whole_way", "clients::test_a_remote_proxy_passes_everything_on",
        "clients::test_the_inspector_calls_the_tools_in_separate_processes",
        "conformance::test_a_scenario_of_the_suite_passes",
    ),
}  # fmt: skip

FAULTS: dict[str, tuple[str, ...]] = {
    "R24 idle and slow connections": (
        "soak::test_idle_and_slow_connections_do_not_slow_others_and_are_cut",
        "flood::test_five_hundred_that_drip_are_cut_off_and_hold_nobody_up",
    ),
    "R28 memory over 100,000 calls": (
        "soak::test_memory_and_descriptors_stay_flat_over_a_hundred_thousand_calls",
    ),
    "R41 nothing a client names is fetched": ("nobody::test_no_file_of_oauth_can_open_a_connection",),
    "R42 replay, races": (
        "tokens::test_a_replayed_code_ends_everything_it_produced",
        "flood::test_redemptions_and_refreshes_at_once_have_one_winner_each",
    ),
    "R42 PKCE, redirects, resource, query": (
        "authorization::test_the_client_receives_every_other_fault",
        "authorization::test_an_address_that_was_not_registered_gets_no_redirect",
        "tokens::test_parameters_in_the_query_do_not_count",
    ),
    "R42 forged forms and frames": (
        "authorization::test_forms_from_other_sites_are_refused",
        "browser::test_a_browser_does_not_show_the_page_in_a_frame_or_send_it_from_another_site",
    ),
    "R42 flood": (
        "attacks::test_a_flood_of_registrations_keeps_nothing_and_an_honest_client_gets_through",
        "flood::test_a_hundred_thousand_registrations_leave_nothing_behind",
    ),
    "R42 hostile names and logos": (
        "registration::test_a_hostile_name_is_cleaned_and_nothing_else_of_it_is_kept",
        "authorization::test_nothing_a_client_or_caller_sends_is_shown_as_markup",
    ),
    "R42 expired": (
        "tokens::test_a_code_is_good_for_a_minute", "tokens::test_an_access_token_is_good_for_an_hour",
        "authorization::test_a_form_that_waited_too_long_is_shown_again",
    ),
    "R43 batches, envelopes, ids, notifications with ids": (
        "row:a batch", "row:jsonrpc 2.0", "row:the id []",
        "row:a notification with an id is a call of an unknown method",
    ),
    "R43 huge params, wrong headers, other methods": (
        "row:a megabyte too much", "row:version 'x' in the header", "row:OPTIONS is no method of the endpoint",
        "row:PATCH is no method of the endpoint",
    ),
    "R43 rebinding": ("row:a rebound host changes nothing in the addresses", "row:a stranger's page"),
}  # fmt: skip

ALL = {**SPECIFICATION, **CLIENTS, **FAULTS}


@pytest.mark.parametrize("rule", list(ALL))
def test_a_rule_has_tests(rule: str) -> None:
    rows = {row.name for row in (*TRANSPORT, *ENVELOPE, *METHODS)}
    for name in ALL[rule]:
        if name.startswith("row:"):
            assert name.removeprefix("row:") in rows, name
        else:
            file, _, test = name.partition("::")
            assert test in list_tests(SHORT[file]), name
