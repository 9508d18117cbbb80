"""Commands of engines and models: train, evaluate, promote, runs, schedules, learners."""
