SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo demo-cluster screenshot deps parts test check unit sim ui-test nemesis fuzz report bench bench-compare bench-study vuln deb rpm image release release-check clean

ENGINE := endpoint/local/node_modules/oxigraph/node_bg.wasm
PACKED := endpoint/local/oxigraph.wasm.zst
CLIENT := web/client/node_modules/.package-lock.json
OTHERS := cmd/freshet/testclient/node_modules/.package-lock.json
AXE    := web/browsertest/node_modules/.package-lock.json
TAGS   := $(if $(shell command -v virtuoso-t),virtuoso)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Without npm, the programs have no engine of their own.
build: $(if $(shell command -v npm)$(wildcard $(ENGINE)),$(PACKED)) ## build freshet and freshet-bench into bin; VERSION=v1.2.3 names a release
	@mkdir -p bin
	go build $$(test ! -f $(PACKED) || echo -tags engine) -buildvcs=auto $(if $(VERSION),-ldflags "-X main.version=$(VERSION)") -o bin/ ./cmd/freshet ./cmd/freshet-bench

deb: deps ## build the Debian package for this machine into dist; VERSION=v1.2.3 names a release
	go run ./cmd/internal/release -version "$(VERSION)" -platforms "" -image "" -rpm "" -deb "$$(go env GOARCH)"
rpm: deps ## build the RPM package for this machine into dist; VERSION=v1.2.3 names a release
	go run ./cmd/internal/release -version "$(VERSION)" -platforms "" -image "" -deb "" -rpm "$$(go env GOARCH)"

image: deps ## build the container image for this machine's architecture into dist, without a container engine
	go run ./cmd/internal/release -version "$(VERSION)" -platforms "" -deb "" -rpm "" -image "$$(go env GOARCH)"

release: deps ## build archives for all platforms, Debian and RPM packages, SBOMs and checksums into dist; VERSION=v1.2.3
	go run ./cmd/internal/release -version "$(VERSION)"

release-check: deps ## build a release for all platforms twice, in different places, and compare the bytes
	FRESHET_TEST_PLATFORMS=linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64 go test ./cmd/internal/release -count 1 -timeout 60m -v

demo: deps build ## run the server with an embedded endpoint, living data and sample queries
	bin/freshet demo

demo-cluster: deps build ## run the demo on a cluster of three nodes, which leaves nothing behind
	bin/freshet demo --nodes 3

screenshot: deps build ## take the README's picture of the overview page (three minutes, needs Chromium)
	@.ci/screenshot web/docs/overview.png

deps: $(ENGINE) ## install the embedded engine at its pinned version from npm
$(ENGINE): endpoint/local/package-lock.json
	npm ci --prefix endpoint/local --no-audit --no-fund --loglevel=error
	@touch $@
$(PACKED): $(ENGINE)
	go run ./cmd/internal/release -pack
$(CLIENT): web/client/package-lock.json
	npm ci --prefix web/client --no-audit --no-fund --loglevel=error
	@touch $@

$(OTHERS): cmd/freshet/testclient/package-lock.json
	npm ci --prefix cmd/freshet/testclient --no-audit --no-fund --loglevel=error
	@touch $@

$(AXE): web/browsertest/package-lock.json
	npm ci --prefix web/browsertest --no-audit --no-fund --loglevel=error
	@touch $@

parts: ## install the dependencies of the tests (Virtuoso, Chromium, promtool, Alertmanager, PostgreSQL, npm clients)
	@.ci/parts
	@command -v npm >/dev/null && $(MAKE) --no-print-directory $(CLIENT) $(OTHERS) $(AXE) || echo "npm is missing: third-party clients and accessibility are not tested"

test: deps parts ## run all tests; the last lines list what ran and what was skipped
	@$(MAKE) --no-print-directory check unit fuzz
	@$(MAKE) --no-print-directory sim
	@$(MAKE) --no-print-directory report

# The tests build as a release does, so that each package is compiled once. Only the race
# detector, which needs cgo, has packages of its own.
check unit ui-test sim fuzz: export CGO_ENABLED := 0
check unit ui-test sim fuzz: export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

check: ## check formatting, vet and staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee /dev/stderr)"
	go vet -tags "$(TAGS)" ./...
	go tool staticcheck -tags "$(TAGS)" ./...
	go vet -C web/browsertest .

# The names of long tests match LONG. They replay data in one goroutine, or do what another
# test does with the race detector, which takes five to ten times as long. It finds nothing
# in packages that start no goroutines, nor in cmd/freshet/trial, which runs the program as
# users do.
LONG       := ^Test(Long|Truth)
GOROUTINES := ^[[:space:]]*go [a-zA-Z]|[.]Go\(|AfterFunc\(|httptest[.]New[STU]|[.]Parallel\(|bubble[.]Test
dirs        = $(sort $(filter-out ./web/browsertest/,$(addprefix ./,$(dir $(shell $(1) | grep '/')))))
TRIAL      := ./cmd/freshet/trial/
SLOWEST    := ./store/ ./web/ui/ ./cmd/freshet/ ./store/journal/nats/ ./scheduler/
RACED       = $(SLOWEST) $(filter-out $(TRIAL) $(SLOWEST),$(filter $(call dirs,git grep -lE '$(GOROUTINES)' -- '*.go'),$(TESTED)))
TESTED      = $(call dirs,git ls-files '*_test.go')
LONG_IN     = $(filter $(RACED),$(call dirs,git grep -lE 'func Test(Long|Truth)' -- '*_test.go'))
# The target "check" vets the tests.
GOTEST     := go test -tags=$(TAGS) -vet=off -timeout 90m -json
UITEST     := go test -C web/browsertest -vet=off -count 1 -timeout 30m -json .
REPORT     := go run .ci/report.go

# The runs are side by side, because many tests wait for processes; the trials wait longest,
# come first and are four at a time, and the slowest packages come first with the race detector, too.
# The browser has the machine for itself: pages must not move while they load.
unit: ## run the Go tests, with the race detector where goroutines are
	@mkdir -p test-output
	export FRESHET_TEST_PROGRAMS=$$(mktemp -d) && trap 'rm -rf "$$FRESHET_TEST_PROGRAMS"' EXIT; \
	for p in freshet freshet-bench; do go build -o $$FRESHET_TEST_PROGRAMS/$$p/$$p ./cmd/$$p; done; \
	$(REPORT) -out test-output/tests.txt \
	  '$(GOTEST) -parallel 4 $(TRIAL) $(filter-out $(TRIAL) $(RACED),$(TESTED))' \
	  'CGO_ENABLED=1 $(GOTEST) -race -skip "$(LONG)" $(RACED)' \
	  '$(GOTEST) -p 1 -run "$(LONG)" $(LONG_IN)' \
	  then '$(UITEST)'

ui-test: deps parts ## test the pages in Chromium and save pictures of them to test-output/ui
	@mkdir -p test-output
	FRESHET_TEST_PICTURES=1 $(REPORT) -out test-output/ui.txt '$(UITEST)'

sim: ## run the real server in SEEDS=200 simulated worlds, or in that of SEED=7 with STORY=1 or SHRINK=1; BUGS=all plants bugs and finds them
	go run ./cmd/internal/sim $(if $(SEED),-seed $(SEED),-seeds $(or $(SEEDS),200)) $(if $(STORY),-story) $(if $(SHRINK),-shrink) $(if $(WITHOUT),-without $(WITHOUT)) $(if $(BUGS),-bugs $(BUGS))

nemesis: deps ## put FAULTS=1000 faults with SEED=1 into a cluster of processes and check that it loses nothing (two hours)
	FRESHET_NEMESIS_FAULTS="$(or $(FAULTS),1000)" FRESHET_NEMESIS_SEED="$(or $(SEED),1)" go test ./cmd/freshet/trial -run '^TestTruthNemesis$$' -count 1 -timeout 8h -v
	FRESHET_NEMESIS_FAULTS=$$(( $(or $(FAULTS),1000) / 20 + 1 )) go test ./store/journal/nats -run '^TestKilledInCreation$$' -count 1 -timeout 2h -v

fuzz: ## run each fuzz target for a second; FUZZTIME=1m searches longer
	@.ci/fuzz "$(or $(FUZZTIME),1s)"

report: ## show the results of the last test run
	@cat test-output/tests.txt

bench: ## run all benchmarks
	go test -run '^$$' -bench . -benchmem ./...

bench-compare: ## compare benchmarks with another revision: make bench-compare REF=main BENCH=Slot PKG=./store
	@.ci/bench-compare "$(REF)" "$(BENCH)" "$(PKG)"

bench-study: build ## compare all policies on a generated trace (output: test-output/study/report.html)
	@mkdir -p test-output
	bin/freshet bench generate --like knuth2016 --seed 1 --out test-output/study.trace
	bin/freshet bench study --trace test-output/study.trace --compare-paper --out test-output/study

vuln: ## check the dependencies for known vulnerabilities (needs the network)
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

clean: ## remove build and test output
	rm -rf bin dist test-output freshet-data
