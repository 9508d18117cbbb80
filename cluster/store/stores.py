"""All stores of one process in one value.

Every method of a store may raise `cluster.errors.Unavailable`: the store can't be reached within its deadline. All are
async.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.logged_query import LoggedQuery
from cluster.records.served_list import ServedAnswer
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.admin_tokens import AdminTokenStore, InvitationStore
from cluster.store.administration.apps_and_keys import AppAndKeyStore
from cluster.store.administration.audit import AuditLog
from cluster.store.administration.grants import GrantStore
from cluster.store.administration.registrations import RegistrationStore
from cluster.store.app_quotas import UsageStore
from cluster.store.archive.article_reads import ArticleReadStore
from cluster.store.archive.article_revisions import ArticleRevisionStore
from cluster.store.archive.client_rules import ClientRuleStore
from cluster.store.archive.feeds import FeedStore
from cluster.store.archive.log_stream import LogStream
from cluster.store.archive.publisher_keys import PublisherKeyStore
from cluster.store.archive.question_bank import QuestionBankStore
from cluster.store.archive.threads import ThreadStore
from cluster.store.archive.user_questions import QuestionStore
from cluster.store.data.change_log import ChangeLog
from cluster.store.data.erasures import ErasureStore
from cluster.store.data.idempotency import IdempotencyStore
from cluster.store.data.imports import ImportStore
from cluster.store.data.intake import Intake
from cluster.store.data.interactions import InteractionStore
from cluster.store.data.records import RecordStore
from cluster.store.data.tasks import TaskStore
from cluster.store.engines.boost_rules import RuleStore, RuleVersionStore
from cluster.store.engines.engine_activity import EngineActivityStore
from cluster.store.engines.engines import EngineStore
from cluster.store.engines.experiments import ExperimentStore
from cluster.store.engines.promotions import PromotionStore
from cluster.store.engines.runs import RunStore, ScheduleStore
from cluster.store.engines.shown_products import ShownProductStore
from cluster.store.installation.leases import LeaseStore
from cluster.store.installation.quarantine_store import QuarantineStore
from cluster.store.installation.rate_limits import LimitStore
from cluster.store.installation.schema_version import SchemaStore


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores of one process, made once by a composition root (`connect.open_stores`)."""

    access: AppAndKeyStore
    records: RecordStore
    intake: Intake
    tasks: TaskStore
    interactions: InteractionStore
    changes: ChangeLog
    engines: EngineStore
    engine_activity: EngineActivityStore
    boost_rules: RuleStore
    rule_versions: RuleVersionStore
    limits: LimitStore
    idempotency: IdempotencyStore
    shown_products: ShownProductStore
    leases: LeaseStore
    runs: RunStore
    schedules: ScheduleStore
    promotions: PromotionStore
    accounts: AccountStore
    grants: GrantStore
    registrations: RegistrationStore
    admin_tokens: AdminTokenStore
    invitations: InvitationStore
    audit: AuditLog
    archive_calls: LogStream[ArchiveCall]
    client_rules: ClientRuleStore
    article_revisions: ArticleRevisionStore
    article_reads: ArticleReadStore
    publisher_keys: PublisherKeyStore
    feeds: FeedStore
    experiments: ExperimentStore
    threads: ThreadStore
    queries: LogStream[LoggedQuery]
    served: LogStream[ServedAnswer]
    question_bank: QuestionBankStore
    questions: QuestionStore
    erasures: ErasureStore
    usage: UsageStore
    imports: ImportStore
    quarantine: QuarantineStore
    schema: SchemaStore
