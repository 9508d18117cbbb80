"""All ports of one process in one value; each protocol is in the file of its noun.

Every method of a port may raise `cluster.errors.Unavailable`: the store can't be reached within its deadline. All are
async.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store.ports.access import AccessStore
from cluster.store.ports.accounts import AccountStore, GrantStore, RegistrationStore
from cluster.store.ports.administration import AdminTokenStore, AuditLog, InvitationStore
from cluster.store.ports.archive_admin import ArchiveCallStore, ClientRuleStore
from cluster.store.ports.boost_rules import RuleStore, RuleVersionStore
from cluster.store.ports.changes import ChangeLog
from cluster.store.ports.engines import EngineStore, EngineWatch
from cluster.store.ports.erasures import ErasureStore
from cluster.store.ports.experiments import ExperimentStore
from cluster.store.ports.idempotency import IdempotencyStore
from cluster.store.ports.imports import ImportStore
from cluster.store.ports.intake import Intake
from cluster.store.ports.interactions import InteractionStore
from cluster.store.ports.leases import LeaseStore
from cluster.store.ports.limits import LimitStore
from cluster.store.ports.pagination import PageStore
from cluster.store.ports.quarantine import QuarantineStore
from cluster.store.ports.query_log import QueryStore
from cluster.store.ports.question_bank import QuestionBankStore
from cluster.store.ports.questions import QuestionStore
from cluster.store.ports.records import RecordStore
from cluster.store.ports.schema import SchemaStore
from cluster.store.ports.tasks import TaskStore
from cluster.store.ports.threads import ThreadStore
from cluster.store.ports.trainings import PromotionStore, RunStore, ScheduleStore
from cluster.store.ports.usage import UsageStore


@dataclass(frozen=True, slots=True)
class Stores:
    """All ports of one process, made once by a composition root (`connect.open_stores` or `memory`)."""

    access: AccessStore
    records: RecordStore
    intake: Intake
    tasks: TaskStore
    interactions: InteractionStore
    changes: ChangeLog
    engines: EngineStore
    engine_watch: EngineWatch
    boost_rules: RuleStore
    rule_versions: RuleVersionStore
    limits: LimitStore
    idempotency: IdempotencyStore
    pages: PageStore
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
    archive_calls: ArchiveCallStore
    client_rules: ClientRuleStore
    experiments: ExperimentStore
    threads: ThreadStore
    queries: QueryStore
    question_bank: QuestionBankStore
    questions: QuestionStore
    erasures: ErasureStore
    usage: UsageStore
    imports: ImportStore
    quarantine: QuarantineStore
    schema: SchemaStore
