"""Use cases of engines and models: recipes, runs, schedules, snapshots, promotions and evaluations."""
