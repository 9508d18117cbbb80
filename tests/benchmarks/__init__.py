"""Benchmarks: `kiosk bench` or `python -m tests.benchmarks`.

    load       the load driver: closed loop, constant rate, honest percentiles
    peers/     what we stand beside: a bare uvicorn FastAPI echo and the default Python proxy of Ray Serve
    stack      starts and stops an installation of our own for the run
    scenarios  what is measured and the bound each figure must keep
    report     a table for people, JSON for machines

All figures of a run are taken one after the other on the same machine, and bounds are ratios beside the echo
of that run, so a slower machine does not fail and a faster one does not discount_delivery.
"""
