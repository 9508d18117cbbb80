"""Engines of an app and what decides how they answer.

engines              the engines     runs, promotions   trainings, their schedules, the served version
engine_activity      traffic and status while they serve
boost_rules          stored rules and their versions     experiments   variants and exposures
shown_products       products already shown under a `pagination_id`
"""
