# Needs Python 3.11, 3.12 or 3.13, Java 17 and make; sets up everything else by itself, in this folder only.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The first that runs and can make a virtual environment: most was run on 3.11. Another one: make test PYTHON=python3.13
FITS := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON = $(shell for each in python3.11 python3.12 python3.13; do $$each -c '$(FITS)' 2>/dev/null && echo $$each && exit; done; echo python3)
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := $(BIN)/uv
SPARK_VERSIONS := 3.5.7 4.0.4 4.1.3 4.2.0 4.3.0
# The oldest that is supported, in its newest patch; requirements.txt has the newest.
OLDEST_AIRFLOW := 3.2.2
# Some images set it. Then each of hundreds of processes would compile Airflow anew, which is two thirds of its start.
unexport PYTHONDONTWRITEBYTECODE

# An environment keeps the Python that it was made with.
ifeq ($(origin PYTHON),command line)
HAS := $(if $(wildcard $(BIN)/python),$(shell $(BIN)/python -V))
ifneq ($(and $(HAS),$(filter-out $(HAS),$(shell $(PYTHON) -V 2>&1))),)
$(error $(VENV) has $(HAS), and $(PYTHON) is $(shell $(PYTHON) -V 2>&1): remove $(VENV) first)
endif
endif

.PHONY: help
help: ## say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

.PHONY: demo
demo: $(READY) page-or-not ## a real Kafka, Spark and Airflow: a job is adopted and upgraded under load (KEEP=1 leaves it running until Ctrl-C; ON=yarn: on YARN, HDFS and a control log in Kafka)
	$(BIN)/python -m demo $(if $(KEEP),--keep) $(if $(ON),--on $(ON))

.PHONY: chaos
chaos: $(READY) ## faults drawn from a seed while the stream is upgraded under load (MINUTES=5 SEED=1 RATE=200 CONTROL=kafka STORAGE=hdfs SINK=postgres)
	$(BIN)/python -m chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(RATE),--rate $(RATE)) $(if $(CONTROL),--control $(CONTROL)) $(if $(STORAGE),--storage $(STORAGE)) $(if $(SINK),--sink $(SINK)) $(if $(CELLS),--cells "$(CELLS)") $(if $(ALL_CELLS),--all-cells)

.PHONY: compose-demo
compose-demo: .env ## the same story in containers, which stay up (needs Docker Compose)
	# The container's user has another number than yours, and which one depends on the engine: everybody may write
	# there, as in /tmp, and only the owner may replace or remove.
	mkdir -p build/demo-compose && chmod 1777 build/demo-compose
	docker compose build
	# The story begins with a stream that was never deployed.
	docker compose --profile demo down --volumes
	docker compose run --rm demo

.PHONY: compose-down
compose-down: ## stop the containers and remove what they have kept
	docker compose --profile demo down --volumes

.env:
	# With the number of random bytes: a Fernet key has 32; the key of HMAC-SHA512, 64 characters or more (RFC 7518).
	umask 077; for each in POSTGRES_PASSWORD:32 AIRFLOW_ADMIN_PASSWORD:32 AIRFLOW_SECRET_KEY:32 AIRFLOW_JWT_SECRET:48 AIRFLOW_FERNET_KEY:32; do \
		echo "$${each%:*}=$$($(PYTHON) -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom($${each#*:})).decode())")"; \
	done > $@

# The page in Airflow's UI. package-lock.json pins its parts by hash, and none of their scripts runs.
WWW := airflow_stream_provider/plugin/www
PAGE := $(WWW)/dist/page.js
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix $(WWW) --cache $(CURDIR)/build/npm --update-notifier=false

.PHONY: page
page: $(PAGE) ## the script of the page in Airflow's UI, of TypeScript (needs npm's registry)

$(PAGE): $(wildcard $(WWW)/src/* $(WWW)/*.*) | $(READY)
	$(NPM) ci --ignore-scripts --no-audit --no-fund
	$(NPM) run check
	$(NPM) run build

# Where npm's registry is out of reach, Airflow shows the plain pages, and tests of the page say that they are left out.
.PHONY: page-or-not
page-or-not: $(READY)
	-$(MAKE) page

.PHONY: wheel
wheel: $(PAGE) ## the wheel, in build/wheel/
	$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir build/wheel

.PHONY: lint
lint: $(READY) site ## ruff, mypy, and the site of docs/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: site
site: $(READY) ## docs/ as a site in build/site; fails on a link that leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# No JVM of these tests lives long enough for its second compiler to pay. Those of Spark map the classes that another one
# has loaded and checked: that is half of what their start costs. Others have no use for them, and shall not say so.
CLASSES := $(CURDIR)/build/spark.jsa
SHORT_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile=$(CLASSES) -Xlog:cds*=off

$(CLASSES): $(READY)
	$(BIN)/python -m devstack.class_archive $@

# What `make test` runs of the real things, marked `quick`: a hand-over with its roll-back and a killed holder, a lag on a broker,
# a DAG run in Airflow, and a form in a browser.
QUICK := $(addprefix tests/integration/,runtime/test_hand_over.py lag/test_lag.py airflow/test_upgrade.py plugin/test_app.py sinks/test_sql_ledger.py)

# mypy uses one core: beside the tests it costs no time of its own.
.PHONY: test
test: $(READY) page-or-not ## lint, types, unit tests, and tests of real Spark, Kafka, Airflow, PostgreSQL and a browser
	$(MAKE) --jobs=2 lint test-quick

# Each worker loads Airflow and all tests by itself, which takes as long as thousands of them; two leave a core idle while
# real parts start. What hangs for a quarter of an hour fails by name, with the stack of every thread.
.PHONY: test-quick
test-quick: $(READY) ## `make test` without lint and types
	JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" $(BIN)/pytest -n 3 --no-loadscope-reorder \
		-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true -m "quick or not (real or system)" tests/unit $(QUICK)

.PHONY: test-all
test-all: test test-integration test-system test-chaos test-stores test-clusters ## everything, one after the other (hours)

# The picture that moves is drawn by `python -m demo.moving`, from the report of `make demo`.
.PHONY: screenshots
screenshots: $(CLASSES) page ## the pictures of docs/page.md, from the page in a real Chromium while a stream is upgraded
	SCREENSHOTS=$(CURDIR)/docs/pictures $(BIN)/pytest -m system tests/system/test_page_live.py

# Beside each other, the longest first: most of them wait for a process most of the time.
.PHONY: test-integration
test-integration: $(CLASSES) page-or-not ## tests of real parts, a hand-over and two faults on the real stack, four cells of the kill matrix
	JAVA_TOOL_OPTIONS="$(SHORT_JVM)" $(BIN)/pytest -n 5 --no-loadscope-reorder \
		-m "demo or not (system or matrix)" tests/integration tests/system

# As those of `make test-integration`; each worker has a Kafka, a Spark cluster and an Airflow of its own.
.PHONY: test-system
test-system: $(CLASSES) page-or-not ## every test of the whole stack, and what else takes long (more than two hours)
	JAVA_TOOL_OPTIONS="$(SHORT_JVM)" $(BIN)/pytest -n 2 --no-loadscope-reorder -m system tests/unit tests/integration tests/system

# Whoever is killed; side by side in one Airflow at a time.
.PHONY: test-chaos
test-chaos: $(READY) ## the kill matrix: every task of every DAG x who is killed while it runs
	$(BIN)/pytest tests/integration/airflow/test_kill_matrix.py

# A whole stack for each world of tests/stories/world.py, one after the other: two would starve each other on two cores.
.PHONY: test-stores
test-stores: $(CLASSES) ## the story with Airflow, faults and counted records: control log in Kafka, files on HDFS and S3A, two masters
	JAVA_TOOL_OPTIONS="$(SHORT_JVM)" $(BIN)/pytest -m system -k "standalone or masters" tests/stories

.PHONY: test-clusters
test-clusters: $(CLASSES) ## the same story on YARN, on Kubernetes (a stand-in) and on one machine, with faults of the cluster
	JAVA_TOOL_OPTIONS="$(SHORT_JVM)" $(BIN)/pytest -m system -k "not standalone and not masters" tests/stories

# Containers need root. Nothing of them is left but the images, in build/compose/: network, processes and /run are their
# own. So the ports of the file are free, this machine's firewall gets no rules, and a run that is killed ends all.
.PHONY: test-compose
test-compose: $(READY) .env ## docker-compose.yaml for real, on Podman and images built here (needs root and Debian packages, which it names)
	$(BIN)/python -m devstack.compose
	unshare --net --pid --fork --kill-child --mount-proc catatonit -- bash -c \
		'mount -t tmpfs none /run && ip link set lo up && exec $(BIN)/pytest -s -m system tests/compose'

# gssapi is compiled: nothing else here needs a compiler.
.PHONY: test-kerberos
test-kerberos: $(READY) ## YARN, HDFS and a KDC: SPNEGO, spark-submit, tokens (needs Debian's libkrb5-dev and gcc)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirements requirements-kerberos.txt
	$(BIN)/pytest tests/unit/clusters/test_kerberos.py tests/integration/clusters/test_yarn_kerberos.py

.PHONY: test-spark
test-spark: $(SPARK_VERSIONS:%=test-spark-%) ## the runtime's contract on Spark 3.5 to 4.3; counts in build/spark/, which `make spark-matrix` takes into the docs

.PHONY: $(SPARK_VERSIONS:%=test-spark-%)
$(SPARK_VERSIONS:%=test-spark-%): test-spark-%: .venv-spark-%/.ready
	rm -f build/spark/$*.json
	.venv-spark-$*/bin/python -m pytest -p tests.support.spark_matrix tests/integration/runtime

.PHONY: spark-matrix
spark-matrix: $(READY) ## the table of versions in docs/compatibility.md, from what `make test-spark` ran
	$(BIN)/python -m tests.support.spark_matrix

.PHONY: test-airflow
test-airflow: .venv-airflow-$(OLDEST_AIRFLOW)/.ready page-or-not ## unit tests, and upgrades in a real Airflow, on the oldest Airflow that is supported
	.venv-airflow-$(OLDEST_AIRFLOW)/bin/pytest -n 3 --no-loadscope-reorder -m "not system" \
		tests/unit tests/integration/airflow/test_upgrade.py

.PHONY: simulate
simulate: $(READY) ## the simulation over all cores: SEEDS=200000 FIRST=0 STORE=topic; counts in build/simulation/report.json
	$(BIN)/python -m tests.support.simulation --seeds $(or $(SEEDS),2000) --first $(or $(FIRST),0) --store $(or $(STORE),both)

.PHONY: bench
bench: $(READY) ## the benchmarks; tables here, numbers in build/bench/
	$(BIN)/python -m benchmarks.dag_parsing
	$(BIN)/python -m benchmarks.open_log
	$(BIN)/python -m benchmarks.upgrade_gap
	$(BIN)/python -m benchmarks.runbook
	$(BIN)/python -m benchmarks.consumer_gap
	$(BIN)/python -m benchmarks.adoption_gap
	$(BIN)/python -m benchmarks.lag
	$(BIN)/python -m benchmarks.advice
	$(BIN)/python -m benchmarks.watch
	$(BIN)/python -m benchmarks.page
	$(BIN)/python -m benchmarks.runtime_overhead
	$(BIN)/python -m benchmarks.stores
	$(BIN)/python -m benchmarks.control_requests
	$(BIN)/python -m benchmarks.storage_requests
	$(BIN)/python -m benchmarks.storage_clone
	$(BIN)/python -m benchmarks.sinks
	$(BIN)/python -m benchmarks.checkpoint

# All but `pyspark`, of which requirements.in has the versions, and `kerberos`, which is compiled where it is installed: it
# has a file of its own.
EXTRAS := object-stores hdfs cncf-kubernetes postgres mariadb cassandra demo dev
KERBEROS = $(shell sed -n 's/^kerberos = \["\(.*\)"\]$$/\1/p' pyproject.toml)
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url \
	--custom-compile-command "make requirements"

.PHONY: requirements
requirements: $(UV) ## compile requirements.txt and requirements-kerberos.txt anew from pyproject.toml and requirements.in
	$(COMPILE) $(EXTRAS:%=--extra %) --output-file requirements.txt pyproject.toml requirements.in
	echo "$(KERBEROS)" | $(COMPILE) --constraints requirements.txt --output-file requirements-kerberos.txt -

.PHONY: clean
clean: ## remove everything that make made
	rm -rf build $(VENV) .venv-spark-* .venv-airflow-* .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info

$(UV):
	@$(PYTHON) -c '$(FITS)' || { echo "Python 3.11, 3.12 or 3.13 with venv is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1 | head -1)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# What the runtime's tests need and nothing else: like a cluster, they have no Airflow. (What is after psutil starts Kafka.)
# Without hashes: requirements.txt has those of one Spark only.
$(SPARK_VERSIONS:%=.venv-spark-%/.ready): .venv-spark-%/.ready: requirements.txt | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-spark-$*
	$(UV) pip install --quiet --python .venv-spark-$*/bin/python pyspark==$* $$(grep -oE '^(pytest|psutil|pydantic|pyyaml|kafka-python|cryptography|jgo)==[^ ]+' requirements.txt)
	touch $@

# As $(VENV), but for Airflow and two packages of requirements.txt: 3.2 takes no newer aiosqlite, and with a newer svcs its
# `dag.test()` loses its API. Without hashes, as above.
UNLIKE := apache-airflow(-core|-task-sdk)?|aiosqlite|svcs
.venv-airflow-%/.ready: requirements.txt requirements.in pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-airflow-$*
	sed -nE '/^($(UNLIKE))==/d; s/^([a-z0-9._-]+)(\[[^]]*\])?(==[^\]*[^ \]).*/\1\3/p' requirements.txt > .venv-airflow-$*/constraints.txt
	$(UV) pip install --quiet --python .venv-airflow-$*/bin/python --constraints .venv-airflow-$*/constraints.txt \
		apache-airflow==$* 'svcs<26' $(EXTRAS:%=--extra %) --requirements pyproject.toml --requirements requirements.in
	$(UV) pip install --quiet --python .venv-airflow-$*/bin/python --no-deps --no-build-isolation --editable .
	touch $@

$(READY): requirements.txt pyproject.toml | $(UV)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirements requirements.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@
