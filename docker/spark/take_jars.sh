#!/bin/bash
# take_jars.sh FOLDER SUMS TARGET
# Copy Kafka's connector, and what it needs beyond Spark's own jars, from the folder where Ivy has put it. Fail unless
# each jar has the SHA-256 that SUMS says: that is the jar with which the tests run.
set -euo pipefail
folder=$1 sums=$(realpath "$2") target=$3
mkdir -p "$target"
for jar in commons-pool2-2.12.0 kafka-clients-3.9.2 spark-sql-kafka-0-10_2.13-4.0.0 spark-token-provider-kafka-0-10_2.13-4.0.0; do
  # Ivy puts the group before the name.
  cp "$folder"/*_"$jar.jar" "$target/$jar.jar"
  grep --fixed-strings --line-regexp --regexp="$(sha256sum "$target/$jar.jar" | cut -d ' ' -f 1)  $jar.jar" "$sums"
done
