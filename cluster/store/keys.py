"""Every Redis key, one function each. Names are singular; `{app}` is the hash tag.

Keys that belong to no app have the hash tag of their subject: `{access}`, `{oauth}`, `{admin}` or `{erasure}`. So has
`ended_tokens`.

Times in values are integer milliseconds since 1970 unless a name says otherwise. "Sealed" means that the
value carries a checksum in front (see `seal`), salted with the key, and for hashes with key and field.
"""

from __future__ import annotations


def access_version() -> str:
    """String, integer. Incremented by every change to apps or keys; API replicas poll it. Owner: access. For ever."""
    return "kiosk:{access}:version"


def access_app() -> str:
    """Hash app_id -> sealed JSON `App`. Owner: access. For ever."""
    return "kiosk:{access}:app"


def access_key() -> str:
    """Hash sha256 hex of the key -> sealed JSON `ApiKey` (ciphertext, never the key). Owner: access. For ever."""
    return "kiosk:{access}:key"


def access_exposed() -> str:
    """Hash key id -> ms: when a request last carried a secret key in its URL. Owner: API replicas, hourly. For ever."""
    return "kiosk:{access}:exposed"


def ended_tokens_version() -> str:
    """Hash app_id -> integer, incremented whenever `ended_tokens` of the app changes; API replicas poll it. Owner: the
    administration. For ever."""
    return "kiosk:{access}:ended"


def ended_tokens(app: str) -> str:
    """Sorted set pseudonym of a user -> ms: tokens of the user that were issued until then have ended. The newest
    100,000; `*` is the time of those that were removed, and counts for all users. Owner: the administration. For ever.
    It has the tag of `ended_tokens_version`, so that one script writes both.
    """
    return f"kiosk:{{access}}:ended-tokens:{app}"


def access_quarantine() -> str:
    """Stream, capped at about 10,000: broken apps and keys, as `quarantine`. Read by operators."""
    return "kiosk:{access}:quarantine"


def schema() -> str:
    """Hash: number (of the schema that everything stored here has), oldest (schema a release needs to run on it),
    release (that wrote this), at, restoring (backup whose restore has not ended). Owner: the start of a release.
    For ever."""
    return "kiosk:{access}:schema"


def releases() -> str:
    """Hash release -> JSON {at, schema}: the last time an API replica of a release ran, and the newest
    schema that the release supports. Owner: API replicas, every five seconds. For ever; entries of a day
    ago are removed.
    """
    return "kiosk:{access}:release"


def replica_memory() -> str:
    """Hash replica -> JSON `ReplicaMemory`: what the loaded apps of an API replica take of its budget. Owner: API
    replicas, every five seconds. For ever; entries of half an hour ago are removed.
    """
    return "kiosk:{access}:replica-memory"


def installation() -> str:
    """Hash: id (random, of the installation that this Redis belongs to), fingerprint (of its master key),
    previous (fingerprints of master keys that something may still be sealed with).
    Owner: the first start. For ever."""
    return "kiosk:{access}:installation"


def account() -> str:
    """Hash username -> sealed JSON `Account`. Owner: administrators. For ever."""
    return "kiosk:{oauth}:account"


def account_quarantine() -> str:
    """Stream, capped at about 10,000: broken accounts, as `quarantine`. Read by operators."""
    return "kiosk:{oauth}:quarantine"


def account_sessions() -> str:
    """Hash user id -> random text, replaced by every sign-out: sessions that began under another text have ended.
    Owner: the API replica that handles the sign-out. For ever."""
    return "kiosk:{oauth}:sessions"


def oauth_code(sha256: str) -> str:
    """Hash: code (sealed JSON `Code`), used (`1` after the first attempt). Owner: the API replica that issued it.
    Ten minutes. The code itself is valid for one minute; the rest of the time detects a replay."""
    return f"kiosk:{{oauth}}:code:{sha256}"


def oauth_assertion(sha256: str) -> str:
    """String: a client's signed assertion was used. Owner: the API replica that verified it. Until it expires, at most
    an hour."""
    return f"kiosk:{{oauth}}:assertion:{sha256}"


def oauth_grant(grant_id: str) -> str:
    """Hash: grant (sealed JSON `Grant`), current and previous (SHA-256 of refresh tokens, space-separated),
    until (ms: how long the previous ones stay valid), used_at. 30 days after the last refresh."""
    return f"kiosk:{{oauth}}:grant:{grant_id}"


def oauth_grants(user_id: str) -> str:
    """Sorted set grant_id -> last refresh: the grants of an account. 30 days after the last refresh."""
    return f"kiosk:{{oauth}}:grants:{user_id}"


def oauth_client_grants(client: str) -> str:
    """Sorted set grant_id -> last refresh: the grants of one client (its short id). 30 days after the last
    refresh."""
    return f"kiosk:{{oauth}}:client_grants:{client}"


def oauth_clients() -> str:
    """Hash short client id -> sealed JSON `Registration`: those that clients changed or removed. Capped at 10,000;
    the least recently used go first."""
    return "kiosk:{oauth}:clients"


def oauth_clients_used() -> str:
    """Sorted set short client id -> when the registration in `oauth_clients` was changed or used. Same cap."""
    return "kiosk:{oauth}:clients_used"


def oauth_revoked() -> str:
    """Sorted set: grant ids, `user:<user_id>` and `client:<short id>`, -> when they were revoked. Two hours: longer
    than the lifetime of any access token. API replicas cache all of it."""
    return "kiosk:{oauth}:revoked"


def oauth_version() -> str:
    """String, integer. Incremented by every revocation; API replicas poll it. For ever."""
    return "kiosk:{oauth}:version"


def admin_token() -> str:
    """Hash sha256 hex of a personal token -> sealed JSON `AdminToken` (never the token). Owner: the administration.
    Expired ones go with the next new token."""
    return "kiosk:{admin}:token"


def invitation() -> str:
    """Hash sha256 hex of the token of an invitation -> sealed JSON `Invitation` (never the token). Owner: the
    administration. Expired ones go with the next new one."""
    return "kiosk:{admin}:invitation"


def audit_row() -> str:
    """Stream: row (JSON `AuditRow`), chain (SHA-256 over the row and the chain of the row before). Owner: the
    administration. For ever: at about 50,000 rows the oldest 1,000 move to `audit_archive`."""
    return "kiosk:{admin}:audit"


def audit_begun() -> str:
    """Hash id -> JSON `AuditRow` of a change that was begun. Owner: the administration. The row of its end removes it;
    one without an end becomes a row `begun` when somebody reads the log."""
    return "kiosk:{admin}:audit-begun"


def audit_archive() -> str:
    """List of blocks of 1,000 rows of `audit_row`, the oldest first: JSON Lines, compressed (zlib). For ever."""
    return "kiosk:{admin}:audit-archive"


def record(app: str, noun: str, record_id: str) -> str:
    """String: sealed JSON of one user or product (`noun` is `user` or `product`). Owner: intake. For ever."""
    return f"{{{app}}}:{noun}:{record_id}"


def record_ids(app: str, noun: str) -> str:
    """Sorted set, all scores 0: ids of all records of a noun, so they read sorted by id. Owner: intake."""
    return f"{{{app}}}:{noun}-id"


def product_type(app: str) -> str:
    """Hash product_id -> its type as JSON text (`"book"`); products without a type are absent. Owner:
    intake.
    """
    return f"{{{app}}}:product-type"


def product_type_ids(app: str) -> str:
    """Sorted set, all scores 0: members `<type as JSON text><product_id>`, so that the ids of one type are
    adjacent, sorted. All types share one key, because a script names its keys before it reads the old type
    of a product. Owner: intake.
    """
    return f"{{{app}}}:product-type-id"


def noun_seen(app: str, noun: str) -> str:
    """String `1`: set by the first upload of a noun, never removed (`no such index` before it)."""
    return f"{{{app}}}:{noun}-seen"


def attribute_types(app: str, noun: str) -> str:
    """Hash custom attribute name -> scalar type (`bool`, `number`, `string`, `object`). Owner: intake."""
    return f"{{{app}}}:{noun}-attribute-type"


def intake(app: str) -> str:
    """Stream: accepted, not yet applied batches. Fields: noun, op, task, payload (sealed). Group `intake`.

    Owner: API replicas add, the intake actor acknowledges and deletes in the script that applies.
    """
    return f"{{{app}}}:intake"


def task(app: str, task_id: str) -> str:
    """Hash: noun, type, status, total, succeeded, failed, errors and late_errors (JSON arrays), entry (its
    intake entry), created_at, finished_at. 24 hours after the last change of status."""
    return f"{{{app}}}:task:{task_id}"


def task_open(app: str) -> str:
    """Sorted set task_id -> created_at: tasks that have not ended. Owner: API replicas add, the intake removes."""
    return f"{{{app}}}:task-open"


def change_log(app: str, noun: str) -> str:
    """Stream: the change log of one noun (`user`, `product`, `interaction`). Fields: op, payload (sealed), and
    for products vectors (sealed) and embedder. The entry id is the offset. Trimmed behind the compacted offset."""
    return f"{{{app}}}:change:{noun}"


def stored_bytes(app: str) -> str:
    """String, integer: bytes of an app with a bound on storage in the artifact store. For ever. Owner: the intake."""
    return f"{{{app}}}:stored-bytes"


def compacted_offset(app: str) -> str:
    """Hash noun -> offset up to which the artifact store holds the changes as segments. Owner: compaction."""
    return f"{{{app}}}:settled"


def compaction_request(app: str) -> str:
    """Hash noun -> offset up to which a training run waits for compaction. Owner: training runs. For ever."""
    return f"{{{app}}}:wanted"


def trimmed(app: str) -> str:
    """Hash noun -> newest offset that was trimmed from the change log. Owner: compaction. For ever."""
    return f"{{{app}}}:trimmed"


def follower(app: str) -> str:
    """Hash follower name -> JSON {noun: offset, at: ms}: which part of the log each follower still needs."""
    return f"{{{app}}}:follower"


def quarantine(app: str) -> str:
    """Stream, capped at about 10,000: quarantined records and batches, with the reason. Fields: kind
    (`record`, `batch`, `change`), noun, id, reason, at, payload (at most 256 KiB). Read by operators.
    """
    return f"{{{app}}}:quarantine"


def recent(app: str, user_key: str) -> str:
    """List, latest arrival first, capped at 200: packed interactions of a user. 400 days after the last
    (up to an hour less for users with hundreds of interactions in a call); one day if an unverified user
    began it and did not return.
    """
    return f"{{{app}}}:recent:{user_key}"


def link(app: str) -> str:
    """Hash anonymous_id -> user_id: the user an anonymous visitor was linked to. For ever, until erased."""
    return f"{{{app}}}:link"


def linked(app: str, user_id: str) -> str:
    """Set of anonymous ids linked to a user. For ever, until erased."""
    return f"{{{app}}}:linked:{user_id}"


def deleted_users(app: str) -> str:
    """Sorted set of keyed hashes of users (`u:...`, `a:...`) by the time when their interactions were deleted.
    Owner: API replicas and the intake. 30 days, the newest 100,000."""
    return f"{{{app}}}:deleted-user"


def deleted_records(app: str, noun: str) -> str:
    """Sorted set of keyed hashes of users (`u:...`) or products (`p:...`) by the time when their delete was accepted.
    Owner: API replicas and the intake. 30 days, the newest 100,000."""
    return f"{{{app}}}:deleted-record:{noun}"


def page_count(app: str) -> str:
    """String, integer: pages that unverified users began. 30 minutes after the first."""
    return f"{{{app}}}:page-count"


def stranger(app: str, day: int) -> str:
    """Hash of counts of unverified callers on one day since 1970: `new` and `ask` in all, and `new:<digest>`,
    `ask:<digest>` by client address (keyed digests of that day, no address). Two days. Owner: API replicas."""
    return f"{{{app}}}:stranger:{day}"


def browser_bytes(app: str, minute: int) -> str:
    """String, integer: bytes that publishable keys wrote to the change log in one minute since 1970. Two minutes."""
    return f"{{{app}}}:browser-bytes:{minute}"


def page(app: str, user_pseudonym: str, page_mark: str) -> str:
    """List of product ids already returned to a user under one `pagination_id`, both as pseudonyms. 30 minutes
    idle."""
    return f"{{{app}}}:page:{user_pseudonym}:{page_mark}"


def archive_call(app: str) -> str:
    """Stream, at most about 4,000 batches: archive calls on their way to the artifact store (sealed JSON list of
    `ArchiveCall`, one `ArchiveCall` of earlier releases). Owner: API replicas add, the intake trims."""
    return f"{{{app}}}:archive-call"


def client_rule(app: str) -> str:
    """Hash folded client name -> sealed JSON `ClientRule`. Owner: administrators. For ever."""
    return f"{{{app}}}:client-rule"


def article_revision(app: str) -> str:
    """Hash product_id -> sealed JSON `ArticleRevision`, about 10,000 at most. Owner: API replicas. For ever."""
    return f"{{{app}}}:article-revision"


def article_read(app: str) -> str:
    """Stream, capped at about 100,000: which articles agents read (sealed JSON `ArticleRead`). Owner: API replicas."""
    return f"{{{app}}}:article-read"


def publisher_key(app: str) -> str:
    """Hash key id -> sealed JSON `PublisherKey`: public keys of statements. Owner: API replicas and administrators.
    For ever."""
    return f"{{{app}}}:publisher-key"


def engine(app: str) -> str:
    """Hash engine_id -> sealed JSON `Engine`. Owner: intake (the default one) and administrators. For ever."""
    return f"{{{app}}}:engine"


def boost_rule(app: str) -> str:
    """Hash `<engine_id><0x1f><name>` -> sealed JSON `BoostRule`. Owner: administrators. For ever."""
    return f"{{{app}}}:boost-rule"


def boost_rule_version(app: str) -> str:
    """Stream, capped at about 2,000: changes of boost rules (sealed JSON `RuleVersion`). Owner: the administration.
    For ever."""
    return f"{{{app}}}:boost-rule-version"


def engine_status(app: str) -> str:
    """Hash engine_id -> JSON `EngineStatus`: the state of its dedicated deployment. Owner: the engine
    operator.
    """
    return f"{{{app}}}:engine-status"


def live_figures(window: int) -> str:
    """Hash name -> count of what was answered within ten seconds. Half an hour. Owner: API replicas."""
    return f"kiosk:live:{window}"


def engine_request_count(app: str, minute: int) -> str:
    """Hash `<placement>:<engine_id>` -> requests of one minute since 1970. Three minutes. Owner: API replicas."""
    return f"{{{app}}}:engine-asked:{minute}"


def engine_last_request(app: str) -> str:
    """Hash `<placement>:<engine_id>` -> time of the last request. A day after the last. Owner: API replicas."""
    return f"{{{app}}}:engine-asked-last"


def limit(app: str, key_id: str, bucket: str) -> str:
    """Hash tokens, at: one token bucket per key and class of request. One hour idle."""
    return f"{{{app}}}:limit:{key_id}:{bucket}"


def idempotency(app: str, token: str) -> str:
    """Hash state, body (sha256), status, reply, readers (pseudonyms): the reply to a write with this Idempotency-Key.
    24 hours after the reply (an hour for a publishable key), 60 seconds before it. `token` is a digest."""
    return f"{{{app}}}:idempotency:{token}"


def idempotency_count(app: str) -> str:
    """String, integer: writes that browsers began with an Idempotency-Key. One hour after the first."""
    return f"{{{app}}}:idempotency-count"


def trial_failures(app: str, trial_id: str) -> str:
    """Hash version -> answers of a trial of snapshots that failed. A month. Owner: API replicas."""
    return f"{{{app}}}:trial-failures:{trial_id}"


def engine_history(app: str, engine_id: str) -> str:
    """List of sealed JSON `Promotion`, oldest first: which version served when. Append-only. For ever."""
    return f"{{{app}}}:engine-history:{engine_id}"


def experiment(app: str) -> str:
    """Hash experiment_id -> sealed JSON `Experiment`. Owner: administrators. For ever."""
    return f"{{{app}}}:experiment"


def experiment_revision(app: str) -> str:
    """Hash experiment_id -> integer: its number of writes; a write must name it. As the experiment."""
    return f"{{{app}}}:experiment-revision"


def experiment_slug(app: str) -> str:
    """Hash slug -> experiment_id: no two experiments of an app share one. As the experiment."""
    return f"{{{app}}}:experiment-slug"


def experiment_version(app: str) -> str:
    """String, integer. Incremented by every change of an experiment; API replicas and the assigner poll it."""
    return f"{{{app}}}:experiment-version"


def experiment_served(app: str, experiment_id: str) -> str:
    """Hash `<variant_id>:<what>` -> count: latency and errors of served replies. Owner: API replicas. For ever."""
    return f"{{{app}}}:experiment-served:{experiment_id}"


def exposure(app: str, experiment_id: str) -> str:
    """Hash prefixed user id -> packed `Exposure`. Owner: API replicas and the assigner. For ever, until erased."""
    return f"{{{app}}}:exposure:{experiment_id}"


def exposure_ids(app: str, experiment_id: str) -> str:
    """Hash prefixed user id -> the other ids of the same person, each as `<length>:<id>`. As `exposure`."""
    return f"{{{app}}}:exposure-id:{experiment_id}"


def question(app: str, question_id: str) -> str:
    """Hash: asked (sealed JSON `Question`), answer (sealed JSON `Answer`), shown (sealed JSON as the API returns
    it), revision, finished, holder, attempts. 30 days; 400 if a history contains it."""
    return f"{{{app}}}:question:{question_id}"


def question_open(app: str) -> str:
    """Sorted set question_id -> when its lease expires: unfinished questions. Owner: the holder of the lease."""
    return f"{{{app}}}:question-open"


def question_by(app: str, user_key: str) -> str:
    """Set of question ids: the questions of a user. As the questions."""
    return f"{{{app}}}:question-by:{user_key}"


def question_recent(app: str) -> str:
    """Sorted set question_id -> when it was asked, the newest 1,000, for editors. Some may be deleted since. For
    ever."""
    return f"{{{app}}}:question-recent"


def question_citing(app: str, product_id: str) -> str:
    """Set of question ids: finished answers that cite a product. As the questions."""
    return f"{{{app}}}:question-citing:{product_id}"


def question_entitled_citing(app: str, product_id: str) -> str:
    """Set of question ids: finished entitled answers that cite a product. As the questions."""
    return f"{{{app}}}:question-entitled-citing:{product_id}"


def question_same(app: str, digest: str) -> str:
    """String: question_id of the answer that was made from exactly the digested inputs. Seven days."""
    return f"{{{app}}}:question-same:{digest}"


def question_count(app: str, user_pseudonym: str, day: int) -> str:
    """String, integer: questions of a user (a pseudonym) on one day since 1970, for metering. Two days."""
    return f"{{{app}}}:question-count:{day}:{user_pseudonym}"


def provider_tokens(app: str, day: int) -> str:
    """String, integer: tokens of the language model that answers cost on one day since 1970. Two days."""
    return f"{{{app}}}:provider-tokens:{day}"


def question_frequency(app: str, day: int) -> str:
    """Sorted set text -> number of users who asked it on one day since 1970. Eight days, 20,000 texts."""
    return f"{{{app}}}:question-asked:{day}"


def question_asker(app: str, day: int) -> str:
    """Set of digests of text and user (no ids): which pairs `question_frequency` counted. Eight days."""
    return f"{{{app}}}:question-asker:{day}"


def question_checked(app: str) -> str:
    """Hash checker -> offset of the product log up to which it checked finished answers again. For ever."""
    return f"{{{app}}}:question-checked"


def query(app: str) -> str:
    """Stream, at most about 4,000 batches: answered queries on their way to the artifact store (sealed JSON list
    of `LoggedQuery`; users as pseudonyms). Owner: API replicas add, the intake trims what it compacted."""
    return f"{{{app}}}:query"


def served(app: str) -> str:
    """Stream: answers on their way to the artifact store (`ServedAnswer`); else as `query`."""
    return f"{{{app}}}:served"


def query_salt(app: str) -> str:
    """String, 16 random bytes: the salt of user pseudonyms in logs. For ever. Secret."""
    return f"{{{app}}}:query-salt"


def question_bank(app: str) -> str:
    """List of sealed JSON lists of `BankQuestion`: the app's question bank. Owner: administrators. For ever."""
    return f"{{{app}}}:question-bank"


def question_bank_version(app: str) -> str:
    """String, integer. Incremented by every replacement of the bank; API replicas poll it. For ever."""
    return f"{{{app}}}:question-bank-version"


def lease(name: str) -> str:
    """String with a time to live: the current holder of an exclusive job (compaction, intake)."""
    return f"kiosk:lease:{name}"


def run(app: str) -> str:
    """Hash run_id -> sealed JSON `Run`. Owner: jobs and the trainer. The newest 500 and all that have not
    ended."""
    return f"{{{app}}}:run"


def run_revision(app: str) -> str:
    """Hash run_id -> integer: the run's number of writes; a write must name it. As long as the run."""
    return f"{{{app}}}:run-revision"


def run_ids(app: str) -> str:
    """Sorted set run_id by created_at. As long as the run."""
    return f"{{{app}}}:run-id"


def run_open(app: str) -> str:
    """Set of run ids that have not ended."""
    return f"{{{app}}}:run-open"


def file_import(app: str) -> str:
    """Hash import_id -> sealed JSON `FileImport`. Owner: administrators. The newest 200."""
    return f"{{{app}}}:import"


def import_progress(app: str) -> str:
    """Hash import_id -> sealed JSON `ImportProgress`. Owner: the process of the import. As long as the import."""
    return f"{{{app}}}:import-progress"


def import_stop(app: str) -> str:
    """Set of import ids: imports whose process shall stop. Owner: administrators. As long as the import."""
    return f"{{{app}}}:import-stop"


def schedule(app: str) -> str:
    """Hash name -> sealed JSON `Schedule`. Owner: administrators and the trainer. For ever."""
    return f"{{{app}}}:schedule"


def feed(app: str) -> str:
    """Hash name -> sealed JSON `Feed`. Owner: administrators. For ever."""
    return f"{{{app}}}:feed"


def feed_state(app: str) -> str:
    """Hash name of a feed -> sealed JSON `FeedState`. Owner: the trainer. As long as the feed."""
    return f"{{{app}}}:feed-state"


def feed_article(app: str) -> str:
    """Hash product_id -> sealed JSON `FeedArticle`. Owner: the trainer. As long as its feed."""
    return f"{{{app}}}:feed-article"


def feed_address(app: str) -> str:
    """Hash digest of an address -> product_id: articles by their pages. Owner: the trainer. As `feed_article`."""
    return f"{{{app}}}:feed-address"


def feed_check(app: str, name: str) -> str:
    """Sorted set product_id by the time when its page is looked at again. Owner: the trainer. As the feed."""
    return f"{{{app}}}:feed-check:{name}"


def erasure_order() -> str:
    """Hash `<app><0x1f><erasure id>` -> sealed JSON `Person`: unfinished erasures. Owner: the API replica adds, the
    intake removes. The only key that names an erased person, and only until the erasure is done."""
    return "kiosk:{erasure}:order"


def erasure(app: str) -> str:
    """Hash erasure_id -> sealed JSON `Erasure`: receipts, which contain no user ids. The newest 10,000."""
    return f"{{{app}}}:erasure"


def erasure_ids(app: str) -> str:
    """Sorted set erasure_id by created_at. As `erasure`."""
    return f"{{{app}}}:erasure-id"


def log_rewrite() -> str:
    """Hash: wanted, done (ms): when an erasure last requested a new append-only file, and when Redis wrote one."""
    return "kiosk:{erasure}:log-rewrite"


def threads(app: str) -> str:
    """Hash user_id -> sealed JSON `UserThreads`. Owner: API replicas and the tracker. For ever, until erased."""
    return f"{{{app}}}:thread"


def thread_revision(app: str) -> str:
    """Hash user_id -> integer: the version of the app's threads that wrote it; a write must name it."""
    return f"{{{app}}}:thread-revision"


def thread_new(app: str) -> str:
    """Set of user ids whose account's indicator is on. As `threads`."""
    return f"{{{app}}}:thread-new"


def thread_watch(app: str) -> str:
    """Sorted set user_id -> version of the app's threads when the watched threads last changed. As `threads`."""
    return f"{{{app}}}:thread-watch"


def thread_version(app: str) -> str:
    """String, integer. Incremented by every write of any user's threads, never decreased. For ever."""
    return f"{{{app}}}:thread-version"


def thread_judged(app: str) -> str:
    """String: offset of the product change up to which the app's threads were judged. Owner: the tracker."""
    return f"{{{app}}}:thread-judged"


def former_ended_tokens(app: str) -> str:
    """Sorted set, as `ended_tokens`: from builds that raised the version in a second step. Only read. For ever."""
    return f"{{{app}}}:ended-tokens"
