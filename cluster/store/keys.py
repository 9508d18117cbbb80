"""Every Redis key, one function each. Names are singular; `{app}` is the hash tag.

Times in values are integer milliseconds since 1970 unless a name says otherwise. "Sealed" means that the
value carries a checksum in front (see `seal`), salted with the key, and for hashes with key and field.
"""

from __future__ import annotations

# --- access: global, few, read by every door four times a second; `{access}` is their hash tag ----------------


def access_version() -> str:
    """String, integer. Incremented by every change to apps or keys; doors poll it. Owner: access. For ever."""
    return "kiosk:{access}:version"


def access_app() -> str:
    """Hash app_id -> sealed JSON `App`. Owner: access. For ever."""
    return "kiosk:{access}:app"


def access_key() -> str:
    """Hash sha256 hex of the key -> sealed JSON `ApiKey` (ciphertext, never the key). Owner: access. For ever."""
    return "kiosk:{access}:key"


def access_exposed() -> str:
    """Hash key id -> ms: when a secret key came in an address last. Owner: API replicas, once an hour. For ever."""
    return "kiosk:{access}:exposed"


def access_quarantine() -> str:
    """Stream, capped at about 10,000: broken apps and keys, as `quarantine`. Read by people."""
    return "kiosk:{access}:quarantine"


# --- people and what they allow: global, `{oauth}` is their hash tag -------------------------------------------


def account() -> str:
    """Hash username -> sealed JSON `Account`. Owner: administrators. For ever."""
    return "kiosk:{oauth}:account"


def account_quarantine() -> str:
    """Stream, capped at about 10,000: broken accounts, as `quarantine`. Read by people."""
    return "kiosk:{oauth}:quarantine"


def account_sessions() -> str:
    """Hash user id -> random text, a new one with every sign-out: sessions that began under another have ended.
    Owner: the API replica the person signs out at. For ever."""
    return "kiosk:{oauth}:sessions"


def oauth_code(sha256: str) -> str:
    """Hash: code (sealed JSON `Code`), used (`1` after the first attempt). Owner: the door that issued it.
    Ten minutes; the code itself is good for one, the rest is the memory of a replay."""
    return f"kiosk:{{oauth}}:code:{sha256}"


def oauth_grant(grant_id: str) -> str:
    """Hash: grant (sealed JSON `Grant`), current and previous (SHA-256 of refresh tokens, space-separated),
    until (ms: how long the previous ones are forgiven), used_at. 30 days after the last refresh."""
    return f"kiosk:{{oauth}}:grant:{grant_id}"


def oauth_grants(user_id: str) -> str:
    """Sorted set grant_id -> last refresh: what a person allowed. 30 days after the last refresh."""
    return f"kiosk:{{oauth}}:grants:{user_id}"


def oauth_client_grants(client: str) -> str:
    """Sorted set grant_id -> last refresh: what people allowed one client (its short id). 30 days after the last
    refresh."""
    return f"kiosk:{{oauth}}:client_grants:{client}"


def oauth_clients() -> str:
    """Hash short client id -> sealed JSON `Registration`: those that clients changed or removed. Capped at 10,000,
    those that were used longest ago go first."""
    return "kiosk:{oauth}:clients"


def oauth_clients_used() -> str:
    """Sorted set short client id -> when the registration in `oauth_clients` was changed or used. As capped."""
    return "kiosk:{oauth}:clients_used"


def oauth_revoked() -> str:
    """Sorted set: grant ids, `user:<user_id>` and `client:<short id>`, -> when they were revoked. Two hours: longer
    than any access token lives. Doors hold all of it."""
    return "kiosk:{oauth}:revoked"


def oauth_version() -> str:
    """String, integer. Incremented by every revocation; doors poll it. For ever."""
    return "kiosk:{oauth}:version"


# --- records ------------------------------------------------------------------------------------------------


def record(app: str, noun: str, record_id: str) -> str:
    """String: sealed JSON of one user or product (`noun` is `user` or `product`). Owner: intake. For ever."""
    return f"{{{app}}}:{noun}:{record_id}"


def record_ids(app: str, noun: str) -> str:
    """Sorted set, all scores 0: ids of all records of a noun, so they read sorted by id. Owner: intake."""
    return f"{{{app}}}:{noun}-id"


def product_type(app: str) -> str:
    """Hash product_id -> its type as JSON text (`"book"`); products without a type are absent. Owner: intake."""
    return f"{{{app}}}:product-type"


def product_type_ids(app: str) -> str:
    """Sorted set, all scores 0: members `<type as JSON text><product_id>`, so that the ids of one type stand
    together, sorted. One key for all types: a script must know its keys before it knows the old type of a
    product. Owner: intake."""
    return f"{{{app}}}:product-type-id"


def noun_seen(app: str, noun: str) -> str:
    """String `1`: set by the first upload of a noun, never removed (`no such index` before it)."""
    return f"{{{app}}}:{noun}-seen"


def attribute_types(app: str, noun: str) -> str:
    """Hash custom attribute name -> scalar type (`bool`, `number`, `string`, `object`). Owner: intake."""
    return f"{{{app}}}:{noun}-attribute-type"


# --- the road of a record ------------------------------------------------------------------------------------


def intake(app: str) -> str:
    """Stream: accepted, not yet applied batches. Fields: noun, op, task, payload (sealed). Group `intake`.

    Owner: doors add, the intake actor acknowledges and deletes in the script that applies.
    """
    return f"{{{app}}}:intake"


def task(app: str, task_id: str) -> str:
    """Hash: noun, type, status, total, succeeded, failed, errors and late_errors (JSON arrays), entry (its
    intake entry), created_at, finished_at. 24 hours after the last change of status."""
    return f"{{{app}}}:task:{task_id}"


def task_open(app: str) -> str:
    """Sorted set task_id -> created_at: tasks that have not ended. Owner: doors add, whoever ends it removes."""
    return f"{{{app}}}:task-open"


def change(app: str, noun: str) -> str:
    """Stream: the change log of one noun (`user`, `product`, `interaction`). Fields: op, payload (sealed), and
    for products vectors (sealed) and embedder. The entry id is the offset. Trimmed behind the settled offset."""
    return f"{{{app}}}:change:{noun}"


def compacted_offset(app: str) -> str:
    """Hash noun -> offset up to which changes stand in Parquet segments on the shelf. Owner: settle."""
    return f"{{{app}}}:settled"


def compaction_request(app: str) -> str:
    """Hash noun -> offset up to which somebody waits for changes to settle. Owner: whoever trains. For ever."""
    return f"{{{app}}}:wanted"


def trimmed(app: str) -> str:
    """Hash noun -> newest offset that was cut off the change log. Owner: settle. For ever."""
    return f"{{{app}}}:trimmed"


def follower(app: str) -> str:
    """Hash follower name -> JSON {noun: offset, at: ms}: who still needs which part of the log."""
    return f"{{{app}}}:follower"


def quarantine(app: str) -> str:
    """Stream, capped at about 10,000: records and batches set aside, with the reason. Fields: kind (`record`,
    `batch`, `change`), noun, id, reason, at, payload (at most 256 KiB). Read by people."""
    return f"{{{app}}}:quarantine"


# --- readers -------------------------------------------------------------------------------------------------


def recent(app: str, reader_id: str) -> str:
    """List, latest arrival first, capped at 200: packed interactions of a reader. 400 days after the last (an hour
    less where they come by the hundred); one day when a stranger began it and did not return."""
    return f"{{{app}}}:recent:{reader_id}"


def link(app: str) -> str:
    """Hash anonymous_id -> user_id: who an anonymous visitor turned out to be. For ever, until erased."""
    return f"{{{app}}}:link"


def linked(app: str, user_id: str) -> str:
    """Set of anonymous ids linked to a user. For ever, until erased."""
    return f"{{{app}}}:linked:{user_id}"


def page_count(app: str) -> str:
    """String, integer: pages that readers without proof began. 30 minutes after the first."""
    return f"{{{app}}}:page-count"


def stranger(app: str, day: int) -> str:
    """Hash of what callers without proof did on one day since 1970: `new` and `ask` in all, and `new:<digest>`,
    `ask:<digest>` by client address (keyed digests of that day, no address). Two days. Owner: doors."""
    return f"{{{app}}}:stranger:{day}"


def browser_bytes(app: str, minute: int) -> str:
    """String, integer: bytes that publishable keys wrote to the change log in one minute since 1970. Two minutes."""
    return f"{{{app}}}:browser-bytes:{minute}"


def page(app: str, reader_mark: str, page_mark: str) -> str:
    """List of product ids already returned to a reader under one `pagination_id`, both as pseudonyms. 30 minutes
    idle."""
    return f"{{{app}}}:page:{reader_mark}:{page_mark}"


# --- the archive ---------------------------------------------------------------------------------------------


def archive_call(app: str) -> str:
    """Stream, capped at about 200,000: calls of the archive's tools (sealed JSON `ArchiveCall`). Owner: doors."""
    return f"{{{app}}}:archive-call"


def client_rule(app: str) -> str:
    """Hash folded client name -> sealed JSON `ClientRule`. Owner: administrators. For ever."""
    return f"{{{app}}}:client-rule"


# --- engines, limits, idempotency -----------------------------------------------------------------------------


def engine(app: str) -> str:
    """Hash engine_id -> sealed JSON `TrainedEngine`. Owner: intake (the default one) and administrators. For ever."""
    return f"{{{app}}}:engine"


def boost_rule(app: str) -> str:
    """Hash `<engine_id><0x1f><name>` -> sealed JSON `BoostRulePart`. Owner: administrators. For ever."""
    return f"{{{app}}}:boost-rule"


def engine_status(app: str) -> str:
    """Hash engine_id -> JSON `EngineStatus`: what was seen of its own deployment. Owner: the engines' keeper."""
    return f"{{{app}}}:engine-status"


def engine_request_count(app: str, minute: int) -> str:
    """Hash `<placement>:<engine_id>` -> requests of one minute since 1970. Three minutes. Owner: doors."""
    return f"{{{app}}}:engine-asked:{minute}"


def engine_last_request(app: str) -> str:
    """Hash `<placement>:<engine_id>` -> when doors last asked it. A day after the last. Owner: doors."""
    return f"{{{app}}}:engine-asked-last"


def limit(app: str, key_id: str, bucket: str) -> str:
    """Hash tokens, at: one token bucket per key and class of request. One hour idle."""
    return f"{{{app}}}:limit:{key_id}:{bucket}"


def idempotency(app: str, token: str) -> str:
    """Hash state, body (sha256), status, reply, readers (pseudonyms): what a write with this Idempotency-Key answered.
    24 hours once it answered (an hour for a publishable key), 60 seconds while it is in flight. `token` is a digest."""
    return f"{{{app}}}:idempotency:{token}"


def idempotency_count(app: str) -> str:
    """String, integer: writes that browsers began with an Idempotency-Key. One hour after the first."""
    return f"{{{app}}}:idempotency-count"


def engine_history(app: str, engine_id: str) -> str:
    """List of sealed JSON `Promotion`, oldest first: what served when. Only ever appended to. For ever."""
    return f"{{{app}}}:engine-history:{engine_id}"


# --- experiments ----------------------------------------------------------------------------------------------


def experiment(app: str) -> str:
    """Hash experiment_id -> sealed JSON `Experiment`. Owner: administrators. For ever."""
    return f"{{{app}}}:experiment"


def experiment_revision(app: str) -> str:
    """Hash experiment_id -> integer: how often it was written; whoever writes must name it. As the experiment."""
    return f"{{{app}}}:experiment-revision"


def experiment_slug(app: str) -> str:
    """Hash slug -> experiment_id: no two experiments of an app share one. As the experiment."""
    return f"{{{app}}}:experiment-slug"


def experiment_version(app: str) -> str:
    """String, integer. Incremented by every change of an experiment; doors and the assigner poll it. For ever."""
    return f"{{{app}}}:experiment-version"


def experiment_served(app: str, experiment_id: str) -> str:
    """Hash `<variant_id>:<what>` -> how often: latency and errors of what was served. Owner: doors. For ever."""
    return f"{{{app}}}:experiment-served:{experiment_id}"


def exposure(app: str, experiment_id: str) -> str:
    """Hash reader id -> packed `Exposure`. Owner: doors and the assigner. For ever, until erased."""
    return f"{{{app}}}:exposure:{experiment_id}"


def exposure_ids(app: str, experiment_id: str) -> str:
    """Hash person -> their other reader ids, each as `<length>:<id>`. As `exposure`."""
    return f"{{{app}}}:exposure-id:{experiment_id}"


# --- questions ------------------------------------------------------------------------------------------------


def question(app: str, question_id: str) -> str:
    """Hash: asked (sealed JSON `NewsQuestion`), answer (sealed JSON `Answer`), shown (sealed JSON as the interface
    shows it), revision, finished, holder, attempts. 30 days; 400 when it stands in a history."""
    return f"{{{app}}}:question:{question_id}"


def question_open(app: str) -> str:
    """Sorted set question_id -> until when it is held: unfinished questions. Owner: whoever holds them."""
    return f"{{{app}}}:question-open"


def question_by(app: str, reader_id: str) -> str:
    """Set of question ids: what a reader asked. As the questions."""
    return f"{{{app}}}:question-by:{reader_id}"


def question_citing(app: str, product_id: str) -> str:
    """Set of question ids: finished answers that cite a product. As the questions."""
    return f"{{{app}}}:question-citing:{product_id}"


def question_same(app: str, digest: str) -> str:
    """String: question_id of the answer that was made from exactly what the digest stands for. Seven days."""
    return f"{{{app}}}:question-same:{digest}"


def question_count(app: str, reader_mark: str, day: int) -> str:
    """String, integer: questions of a reader (a pseudonym) on one day since 1970, for metering. Two days."""
    return f"{{{app}}}:question-count:{day}:{reader_mark}"


def provider_tokens(app: str, day: int) -> str:
    """String, integer: tokens of the language model that answers cost on one day since 1970. Two days."""
    return f"{{{app}}}:provider-tokens:{day}"


def question_frequency(app: str, day: int) -> str:
    """Sorted set text -> how many readers asked it on one day since 1970. Eight days, 20,000 texts."""
    return f"{{{app}}}:question-asked:{day}"


def question_asker(app: str, day: int) -> str:
    """Set of marks of text and reader (no ids): who was counted in `question_frequency`. Eight days."""
    return f"{{{app}}}:question-asker:{day}"


def question_checked(app: str) -> str:
    """Hash checker -> offset of the product log up to which it checked finished answers again. For ever."""
    return f"{{{app}}}:question-checked"


# --- search ---------------------------------------------------------------------------------------------------


def query(app: str) -> str:
    """Stream, capped at about 4,000 lots: answered queries on their way to the shelf (sealed JSON list of
    `LoggedQuery`; readers as pseudonyms). Owner: doors add, the intake trims what it settled."""
    return f"{{{app}}}:query"


def query_salt(app: str) -> str:
    """String, 16 random bytes: what pseudonyms of readers in the query log are made with. For ever. Secret."""
    return f"{{{app}}}:query-salt"


def question_bank(app: str) -> str:
    """List of sealed JSON lists of `BankQuestion`: the app's question bank. Owner: administrators. For ever."""
    return f"{{{app}}}:question-bank"


def question_bank_version(app: str) -> str:
    """String, integer. Incremented by every replacement of the bank; doors ask for it. For ever."""
    return f"{{{app}}}:question-bank-version"


# --- jobs and actors ------------------------------------------------------------------------------------------


def lease(name: str) -> str:
    """String with a time to live: who currently does a job that only one may do (settle, intake)."""
    return f"kiosk:lease:{name}"


def run(app: str) -> str:
    """Hash run_id -> sealed JSON `IngestRun`. Owner: jobs and the trainer. The newest 500 and whatever has not
    ended."""
    return f"{{{app}}}:run"


def run_revision(app: str) -> str:
    """Hash run_id -> integer: how often the run was written; whoever writes must name it. As long as the run."""
    return f"{{{app}}}:run-revision"


def run_ids(app: str) -> str:
    """Sorted set run_id by created_at. As long as the run."""
    return f"{{{app}}}:run-id"


def run_open(app: str) -> str:
    """Set of run ids that have not ended."""
    return f"{{{app}}}:run-open"


def schedule(app: str) -> str:
    """Hash name -> sealed JSON `Schedule`. Owner: administrators and the trainer. For ever."""
    return f"{{{app}}}:schedule"


# --- erasures: `{erasure}` is the hash tag of the global ones ------------------------------------------------------


def erasure_order() -> str:
    """Hash `<app><0x1f><erasure id>` -> sealed JSON `Person`: erasures that are not done. Owner: who asks adds, the
    intake removes. The only key that names a person who is erased, and only until that is done."""
    return "kiosk:{erasure}:order"


def erasure(app: str) -> str:
    """Hash erasure_id -> sealed JSON `Erasure`: receipts, which name nobody. The newest 10,000."""
    return f"{{{app}}}:erasure"


def erasure_ids(app: str) -> str:
    """Sorted set erasure_id by created_at. As `erasure`."""
    return f"{{{app}}}:erasure-id"


def log_rewrite() -> str:
    """Hash: wanted, done (ms): when the last erasure asked for a new append-only file, and when one was written."""
    return "kiosk:{erasure}:log-rewrite"


# --- history threads ----------------------------------------------------------------------------------------------


def threads(app: str) -> str:
    """Hash user_id -> sealed JSON `ReaderThreads`. Owner: doors and the tracker. For ever, until erased."""
    return f"{{{app}}}:thread"


def thread_revision(app: str) -> str:
    """Hash user_id -> integer: which version of the app's threads wrote it; whoever writes must name it."""
    return f"{{{app}}}:thread-revision"


def thread_new(app: str) -> str:
    """Set of user ids whose account's indicator is on. As `threads`."""
    return f"{{{app}}}:thread-new"


def thread_watch(app: str) -> str:
    """Sorted set user_id -> version of the app's threads when what they watch last changed. As `threads`."""
    return f"{{{app}}}:thread-watch"


def thread_version(app: str) -> str:
    """String, integer. Incremented by every write of anybody's threads, never set back. For ever."""
    return f"{{{app}}}:thread-version"


def thread_judged(app: str) -> str:
    """String: offset of the product change up to which the app's threads were judged. Owner: the tracker."""
    return f"{{{app}}}:thread-judged"
