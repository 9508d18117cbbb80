"""Who may do what, and who did.

apps_and_keys      apps and API keys     accounts   people who sign in
grants             authorization codes and grants     registrations   clients that changed or removed theirs
admin_tokens       personal tokens and invitations
audit              the log of changes; `audit_chain` checks it, `audit_proof` proves it outside of Redis
"""
