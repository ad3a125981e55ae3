"""The triggers that wait for deferred tasks: one for streams, one for lags; and one that schedules DAGs by a lag."""
