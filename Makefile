# What a developer types. "make test" is exactly what CI runs; CONTRIBUTING.md says what each is for.

GO ?= go
VERSION ?=
LDFLAGS = -s -w $(if $(VERSION),-X github.com/sluicemq/sluice/internal/version.number=$(VERSION))

# Of the long campaigns, e.g. make crash KILLS=50, make fuzz FUZZ_TIME=5m, make wire-fuzz DURATION=1h, make metamorphic SEEDS=2000.
KILLS ?= 50
SEEDS ?= 10000
FUZZ_TIME ?= 60s
DURATION ?= 10m
DEPTH ?= 2
STATES ?= 10000000
BENCH_FLAGS ?=

.PHONY: build test unit race lint fuzz wire-fuzz sim model crash conformance bench broadcast-table docker clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o sluice ./cmd/sluice

test:
	.ci/run

unit:
	$(GO) test ./...

race:
	.ci/run race

lint:
	.ci/run format tidy vet lint

fuzz:
	FUZZ_TIME=$(FUZZ_TIME) .ci/run fuzz

wire-fuzz:
	cd test && $(GO) test ./differ -run Differential -count=1 -v -duration $(DURATION) -timeout 0 -differences 20

metamorphic:
	cd test && $(GO) test ./metamorphic -run Metamorphic -count=1 -v -seed 0 -seeds $(SEEDS) -timeout 0 -differences 20

sim:
	SLUICE_SIM_SEEDS=$(SEEDS) $(GO) test ./sim -run Stored -count=1 -timeout 3h

model:
	$(GO) test ./sim/protocol -run Explore -count=1 -v -timeout 0 -depth $(DEPTH) -states $(STATES)

crash:
	cd test && $(GO) test ./crash -run Kill -count=1 -v -kills $(KILLS) -timeout 2h

conformance:
	test/conformance/run.sh

bench: build
	$(GO) run ./bench -server ./sluice -reference "$$(.ci/tool nats-server)" $(BENCH_FLAGS)

broadcast-table:
	$(GO) run ./sim/broadcast

docker:
	docker build -t sluice .

clean:
	rm -rf .cache sluice
