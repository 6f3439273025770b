module github.com/waymark-net/waymark/collector

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	github.com/waymark-net/waymark v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/VictoriaMetrics/metrics v1.35.1 // indirect
	github.com/expr-lang/expr v1.17.8 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/valyala/fastrand v1.1.0 // indirect
	github.com/valyala/histogram v1.2.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/waymark-net/waymark => ../
