"""Words that names of modules and folders are made of. The last word is a noun, a term or a verb of the lists."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPOUNDS = frozenset({"sign_in"})
"Names of more than one word of which the last is no noun by itself."

NOUNS = _words(
    """
    25 access account accounts acl activity actor actors address addresses admin administration administrator
    admission affiliation agents aggregation als analysis anchor answer answers aof api app append application
    applier apps archives argument arguments arrays article articles artifact artifacts assertions assets
    assigner assignment attempt attribute attributes attribution audit authentication authorization autocomplete
    automation automaton backup bank basket baskets batch bias bill binary blend bm bodies body boost bootstrap
    bounds breaker browser bucket buckets budget builds bulk bundle cache calibration caller calls candidate
    candidates catalog catalogue chain change changes channel chart charts checklist checkpoint checks choice
    chunks citation citations claimed classes clauses cli client clients clock cluster code codec cohorts column
    columns combined command commands commits compact compaction comparison completion completions components
    composer compression conditional config conflicts conformance connection connections console content context
    contributions cooccurrence copies correction counterfactual counts creation credentials crypto csrf curve
    daily data dataset dates day deadline deletes demo deployments detection dictionary digest directories
    discovery disk display distance diversity docs doctor document documents draft drafts drain drift driver
    ease edge edit edits embedder embedding encoder encoders endpoint endpoints engine engines ensemble entity
    entry env environment erasure erasures error errors etag evaluation evaluations event events evidence
    examples executor experiment experiments explanations exploration exports facets factor factors fast faults
    features feed feedback feeds fence fetcher field fields figures file files filter follower followups form
    format formats forms formula frame framework front gate gateway gauges generation goal grants graph group
    groups guard guardrails handler handover handshake haproxy hash hashing head histories history host hosts
    html http idempotency identity ids imports index indexes info injection inputs insight installation intake
    interaction interactions interest interleaved interleaving invitations item items job jobs json jsonrpc key
    keyring keys kind knn language languages ld learners lease leased leases lexer library licence lifecycle
    limit limits line links list lists llm loader local lock log logged logs lookup loop machine management
    manifest mappings markdown marks master matcher materials matrix mcp me measurement measurements mediawiki
    memory message messages metadata meter methods metrics mlflow model models monitor multiplexer names
    navigation neighbours news ngram node notifier number oauth observation observer offsets oidc onnx openapi
    operation operations operator origin outcome outcomes overlay overview pace page pages paragraph paragraphs
    parameter parser part parts passage passages password past path paths patterns people person phrases
    pipeline pkce placement places plan playground plots point policy poller popularity ports position postings
    preferences prefix preparation preview principal priority probe process processes product products profile
    profiles progress projection promotion promotions prompt proof proposal protocol provider proxies publisher
    purchase qa quantization quarantine queries query question questions quotas random rate rates ray
    readability reader readership readiness reads reasons recipe recipes recognition recommendation recommender
    record records redirects redis reference registration registrations registry regression relevance removal
    renderer rendering renewal repair repeat replaced replay replays replica replies reports request requests
    reranker reseal resources rest restarts restoring result results retrieval revision revisions revocation
    robot robots roles roster router routes row rows rsl rule rules runs runtime safetensors salts sample
    sampler samples sbom scalars scan scheduler schedules schema scorer scores screen script seal seals security
    segment segments selection sentence sequences served server service services session sessions settings setup
    shop signals signatures significance signin silence size snapshot snapshots source sources spell splitter
    ssrf stages standbys start startup state statistics status steps storage store stores stream subprocess
    suggestions summary sums supervisor support sweep sync syntax system table tables task tasks team teasers
    templates term terms text texts thread threads tier tiers time times token tokens tools traces tracker
    tracking traffic trainings transformer transport treatment treatments tree trial trials tryout types units
    upload uploads url usage user users validation value values variant vectors verdict verification version
    views visit visits vocabulary vote vulnerabilities warmup warnings weights wire word wordpress words worker
    workload wrapper writer writes
    """
)
"Plain English nouns and terms of search, recommendation, HTTP, OAuth, Ray and Redis."

ACTIVITIES = _words(
    """
    connecting folding highlighting hosting learning loading mapping matching ranking routing scaling scoring
    serving signing tracing training tuning writing
    """
)
"Forms in -ing that the field uses as nouns; others are no names of modules."

VERBS = _words(
    """
    ask attach build call check connect dispatch estimate evaluate explain export fit forget import ingest poll
    promote recheck recommend refresh render replay report rerank retrieve run score search sort split train
    upgrade watch
    """
)
"Verbs that name the one function of a module: a stage, a command, a conversion."

TERMS = _words(
    """
    accepted all archive columnar down extractive hot lexical local open shared standardized up
    """
)
"Adjectives and participles that are terms of the vocabulary, alone as well."

MODIFIERS = _words(
    """
    affiliate allowed and cached cold compacted compiled completed confidential connected delimited dry durable
    external fail filtered first folded free global golden imported joined latent learned live loaded logged
    lost multiplexed named of off packed personal plain polite popular readable recent refreshing refused
    repeated running sealed second seeded sequential shipped shown signed sparse stateless stored structured
    uncompacted unordered unreadable watched
    """
)
"Adjectives and participles that stand before a noun, never last."
