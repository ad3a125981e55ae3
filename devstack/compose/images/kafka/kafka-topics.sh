#!/bin/bash
exec java -Xmx256m -Dlog4j2.configurationFile=/etc/kafka/docker/tools-log4j2.yaml \
  -cp '/opt/kafka/libs/*' org.apache.kafka.tools.TopicCommand "$@"
