"""Words that names of modules and folders are made of. The last word is a noun, a term or a verb of the lists."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPOUNDS = frozenset({"sign_in"})
"Names of more than one word of which the last is no noun by itself."

NOUNS = _words(
    """
    25 access account accounts acl activity actor actors address addresses admin administration administrator
    admission affiliation agents aggregation als analysis anchor anchors answer answers aof api app append
    application applier apps archives argument arguments arrays article articles artifact artifacts assertions
    assets assigner assignment attempt attribute attributes attribution audit authentication authorization
    autocomplete automation automaton backup bank basket baskets batch benchmark bias bill binary blend bm
    bodies body boolean boost bootstrap bounds breaker browser bucket buckets budget builds bulk bundle cache
    calibration caller calls candidate candidates card catalog catalogue chain change changes channel chart
    charts checklist checkpoint checks choice chunks circles citation citations claimed classes clauses cli
    client clients clock cluster code codec cohorts column columns combined command commands commits compact
    compaction comparison completion completions components composer compression conditional config confirmation
    conflicts conformance connection connections console content context contributions cooccurrence copies
    correction cors counterfactual counts creation credentials crypto csrf curve daily data dataset dates day
    deadline deletes demo deployments detection dictionary digest directories discovery disk display distance
    diversity docs doctor document documents draft drafts drain drift driver ease edge edit edits embedder
    embedding encoder encoders endpoint endpoints engine engines ensemble entity entrance entries entry env
    envelope environment erasure erasures error errors etag evaluation evaluations event events evidence
    examples executor experiment experiments explanations exploration exports exposure facets factor factors
    fast faults features feed feedback feeds fence fetcher field fields figures file files filter folders
    follower followup followups form format formats forms formula frame framework front gate gateway gauges
    generation geo goal grams grants graph group groups guard guardrails handler handover handshake haproxy hash
    hashing head histories history host hosts html http idempotency identity ids imports index indexes info
    injection input inputs insight installation intake interaction interactions interest interleaved
    interleaving invitations item items job jobs json jsonrpc key keyring keys kind knn language languages ld
    learners lease leased leases lexer library licence lifecycle limit limits line links list lists llm loader
    local lock log logged logs lookup loop machine management manifest map mappings markdown marks master
    matcher materials matrix mcp me measurement measurements mediawiki memory message messages metadata meter
    methods metrics mlflow model models monitor multiplexer names navigation neighbours news ngram niceness node
    notifier number numbers oauth observation observer offsets oidc onnx openapi operation operations operator
    origin outcome outcomes overlay overview pace page pages paragraph paragraphs parameter parser part parts
    passage passages password past path paths patterns people person phrases pictures pipeline pkce place
    placement places plan playground plots point policy poller popularity ports position postings preferences
    prefix prefixes preparation preview principal prior priority probe process processes product products
    profile profiles progress projection promotion promotions prompt proof proposal protocol provider proxies
    publisher purchase qa quantization quarantine queries query question questions queue quotas random rate
    rates ray readability reader readership readiness reads reasons rebuilder recipe recipes recognition
    recommendation recommender record recorder records redirects redis reference registration registrations
    registry regression relevance removal renderer rendering renewal repair repeat replaced replay replays
    replica replies reports request requests reranker reseal resources responsive rest restarts restoring result
    results retrieval revision revisions revocation robot robots roles roster router routes row rows rsl rule
    rules runs runtime safetensors salts sample sampler samples sbom scalars scan schedule scheduler schedules
    schema scorer scores screen script seal seals secrecy sections security segment segments selection sentence
    sentences sequences served server service services session sessions settings setup shell shop signals
    signatures significance signin silence sitemap size sketches slot snapshot snapshots snippets source sources
    span spell splitter ssrf stages standbys start startup state statistics status steps stopwords storage store
    stores stream subprocess suggestions sum summary sums supervisor support sweep sweeper sync synonyms syntax
    system table tables tail task tasks team teasers templates term terms text texts thread threads tier tiers
    time times token tokens tools traces tracker tracking traffic trainings transformer transport treatment
    treatments tree trial trials trust tryout types units upload uploads url usage user users validation value
    values variant vault vectors verdict verification version views visit visits vocabulary vote vulnerabilities
    warmup warnings weights window wire word wordpress words worker workload wrapper writer writes
    """
)
"Plain English nouns and terms of search, recommendation, HTTP, OAuth, Ray and Redis."

ACTIVITIES = _words(
    """
    anchoring connecting finding folding grouping highlighting hosting learning loading mapping matching
    ranking routing scaling scoring serving signing tracing training trending tuning wiring writing
    """
)
"Forms in -ing that the field uses as nouns; others are no names of modules."

VERBS = _words(
    """
    ask attach build call check compile connect dispatch dither estimate evaluate explain export fit
    forget import ingest poll promote recheck recommend refresh render replay report rerank retrieve run
    score search sort split train upgrade verify view watch
    """
)
"Verbs that name the one function of a module: a stage, a command, a conversion."

TERMS = _words(
    """
    accepted all archive columnar down extractive hot lexical local open shared standardized trending up
    """
)
"Adjectives and participles that are terms of the vocabulary, alone as well."

MODIFIERS = _words(
    """
    affiliate allowed and cached checksummed cold compacted compiled completed confidential connected delimited
    dry durable embedded external fail filtered first folded free global golden hybrid imported issued joined
    latent learned live loaded logged lost marked moved multiplexed named of off packed personal plain polite
    popular public published readable recent refreshing refused repeated running scaled sealed second seeded
    sequential shipped shown signed sparse stateless stored structured uncompacted unordered unreadable
    unverified valid watched
    """
)
"Adjectives and participles that stand before a noun, never last."
