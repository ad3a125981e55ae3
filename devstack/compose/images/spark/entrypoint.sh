#!/bin/bash
# What upstream does with a command that is not one of Kubernetes.
exec "$@"
