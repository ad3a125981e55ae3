"""A simulated machine room: drivers, watch and Airflow tasks that run the real model and control code step by step.

Every actor is a greenlet that stops wherever another process could come between, so that a test decides what happens
next: who goes on, which message is lost, who is killed or frozen there. Nothing here sleeps or uses a thread.
"""
