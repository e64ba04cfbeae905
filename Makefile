# The entry point. Every target sets up what it needs.

CARGO ?= cargo
CARGO_CYCLONEDX := 0.5.9
CARGO_DENY := 0.20.2
MDBOOK := 0.5.4
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)

.PHONY: help demo page program test chaos fuzz corpus journals images page-states rivals lint deny docs man errors conversions bench model clients postgres restate neovim vscode release

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# On a terminal it ends in the studio with the runs of the demo.
demo: model program  ## Run the bundled examples on the local model, and show their runs in the studio
	@target/release/flowloom demo --data-dir examples/.flowloom
	@if [ -t 1 ]; then target/release/flowloom studio examples --no-open; \
	else echo "In the browser, at http://127.0.0.1:8700: target/release/flowloom studio examples"; fi

page: web/node_modules/.package-lock.json  ## Build the studio, which the program embeds (Node 20)
	@npm run build --silent --prefix web

web/node_modules/.package-lock.json: web/package-lock.json
	npm ci --no-audit --no-fund --loglevel error --prefix web

program: page
	$(CARGO) build --release --locked -p flowloom

release: page .tools/bin/cargo-cyclonedx  ## Build a portable release archive into target/dist
	@scripts/make-release.sh

.tools/bin/cargo-cyclonedx:
	$(CARGO) install cargo-cyclonedx --version $(CARGO_CYCLONEDX) --locked --root .tools --target-dir target/tools

model:  ## Fetch the local models into the cache (about 120 MB, once)
	@scripts/fetch-model.sh

neovim:  ## Fetch Debian's Neovim for the tests into the cache (about 6 MB, once)
	@scripts/fetch-neovim.sh

vscode: editors/vscode/node_modules/.package-lock.json  ## Build the extension for Visual Studio Code into target/flowloom.vsix
	npm run check --silent --prefix editors/vscode
	npm test --silent --prefix editors/vscode
	npm run build --silent --prefix editors/vscode
	python3 -B editors/vscode/pack.py target/flowloom.vsix

editors/vscode/node_modules/.package-lock.json: editors/vscode/package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund --loglevel error --prefix editors/vscode

clients:  ## Install the clients that the server is tested with (once)
	@scripts/fetch-clients.sh

postgres:  ## Fetch a Postgres for the tests into the cache (about 25 MB, once)
	@scripts/fetch-postgres.sh

restate:  ## Fetch a Restate server for the tests into the cache (about 80 MB, once)
	@scripts/fetch-restate.sh

lint:  ## Formatting, lints and links of the API documentation, as in CI
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

# Snapshots are compared, never written: a change of what people see is accepted by hand (CONTRIBUTING.md).
test: export INSTA_UPDATE = no
# A test of the sandbox, of Postgres, of Restate or with clients of others that cannot run here fails, instead of saying SKIP.
test: export FLOWLOOM_REQUIRE_SANDBOX = 1
test: export FLOWLOOM_REQUIRE_POSTGRES = 1
test: export FLOWLOOM_REQUIRE_RESTATE = 1
test: export FLOWLOOM_REQUIRE_CLIENTS = 1
# The browser is tested last, with the program that was built for the other tests.
test: model postgres restate clients neovim page vscode lint  ## Everything CI does
	npm run lint --silent --prefix web
	npm test --silent --prefix web
	python3 -B -m unittest discover --start-directory tests/rivals
ifeq ($(NEXTEST),yes)
	$(CARGO) nextest run --locked --workspace --no-fail-fast
	$(CARGO) test --locked --workspace --doc
else
	$(CARGO) test --locked --workspace --no-fail-fast
endif
	npm run browser --silent --prefix web

# The program is built for debugging: only then it has failpoints.
chaos: export FLOWLOOM_REQUIRE_POSTGRES = 1
chaos: export FLOWLOOM_REQUIRE_RESTATE = 1
chaos: postgres restate  ## Simulate 100,000 schedules, plant bugs, and kill the program 1,000 times (SEED=, KILLS=)
	$(CARGO) run --release --locked -p simulation --bin simulation -- $(if $(SEED),--seed $(SEED))
	$(CARGO) run --locked -p simulation --bin planted-bugs
	$(CARGO) build --locked -p flowloom -p chaos
	target/debug/chaos $(if $(SEED),--seed $(SEED)) --kills $(or $(KILLS),1000)

fuzz:  ## Search with libFuzzer for inputs that break a reader of untrusted text (SECONDS= for each target, SEED=, TARGETS=)
	@scripts/fuzz.py --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(TARGETS)

corpus:  ## Reduce the inputs that `make fuzz` found to those that reach different code, and keep them in tests/fuzz/corpus
	@scripts/fuzz.py --update-corpus $(TARGETS)

# The files of a released version are never written again.
journals:  ## Write the journals of this version that later versions must replay into tests/journals/v1
	$(CARGO) test --locked -p flowloom --test journals -- --ignored write_journals

images: page  ## Take the pictures of the documentation again
	$(CARGO) build --locked -p flowloom
	npm run images --silent --prefix web

page-states:  ## Write the states that the page's fold is compared with into tests/page-states
	FLOWLOOM_UPDATE_STATES=1 $(CARGO) test --locked -p flowloom-core --test page_states

# The peers are installed as requirements.txt pins them, so this is not part of `make test`.
rivals: target/rivals/pinned  ## Kill Flowloom, DBOS and LangGraph at the same times and count what arrived (SEED=, KILLS=)
	python3 -B tests/rivals/compare.py --python target/rivals/python/bin/python \
		$(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS))

target/rivals/pinned: tests/rivals/requirements.txt
	rm -rf target/rivals && mkdir -p target/rivals
	python3 -m venv --without-pip target/rivals/python
	python3 -m pip --python target/rivals/python/bin/python install --disable-pip-version-check --quiet \
		--require-hashes --only-binary=:all: -r $<
	cp $< $@

# The current database of advisories needs the network at every check, so it is left to `cargo deny check advisories`.
deny: .tools/bin/cargo-deny  ## Licences, sources, unwanted crates (deny.toml) and known vulnerabilities
	.tools/bin/cargo-deny --locked check bans licenses sources
	@scripts/check-advisories.sh

.tools/bin/cargo-deny:
	$(CARGO) install cargo-deny --version $(CARGO_DENY) --locked --root .tools --target-dir target/tools

docs: .tools/bin/mdbook  ## Build the documentation site into target/book
	.tools/bin/mdbook build docs

.tools/bin/mdbook:
	$(CARGO) install mdbook --version $(MDBOOK) --locked --root .tools --target-dir target/tools

man: program  ## Write the man pages into target/man
	@target/release/flowloom man target/man

conversions:  ## Write the table of conversions in docs/convert.md
	FLOWLOOM_UPDATE_TABLE=1 $(CARGO) test --locked --workspace --test conversion table

errors:  ## Add new error codes, and pages of formats, to docs/errors/README.md and docs/SUMMARY.md
	FLOWLOOM_UPDATE_LISTS=1 $(CARGO) test --locked -p structure --test codes lists -- --test-threads=1

# With PEERS, the peers take turns with the engine: all workloads (PEERS=1), or those that it names (PEERS="W1 W5").
ifdef PEERS
bench: program restate postgres  ## Measure the engine next to the floor of this machine (ROWS="scale restate": some; PEERS=1: next to its peers)
	@bench/peers/install.sh
	$(CARGO) build --release --locked -p flowloom-restate --example bare-service
	$(CARGO) run --release --locked -p bench -- peers $(if $(filter-out 1,$(PEERS)),$(PEERS))
else
bench: model program postgres restate target/peers/pinned
	$(CARGO) build --release --locked -p flowloom-restate --example bare-service
	$(CARGO) run --release --locked -p bench -- $(ROWS)
endif

target/peers/pinned: bench/peers/requirements.txt
	rm -rf target/peers/python && mkdir -p target/peers
	python3 -m venv --without-pip target/peers/python
	python3 -m pip --python target/peers/python/bin/python install --disable-pip-version-check --quiet \
		--require-hashes --only-binary=:all: --no-deps -r $<
	cp $< $@
