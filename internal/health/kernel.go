// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Support is whether the kernel can do something: yes, no, or why that is
// unknown.
type Support struct {
	Yes bool
	Err error // when unknown
}

// Kernel are the machine's features for a data plane.
type Kernel struct {
	Release    string
	Capability uint64 // effective, one bit each
	FreePorts  int    // ports from here on need no capability
	BTF        bool
	Memlock    uint64
	Classifier Support // tc programs with clsact
	JIT        Support // programs are compiled to machine code
	XDP        Support
	TCX        Support
	Clsact     Support // asked only of a kernel without tcx
	RingBuffer Support
	TAI        Support // bpf_ktime_get_tai_ns
	Segments   Support // routes with SRv6
}

// ReadKernel probes the kernel. It loads programs of two instructions, and
// attaches none but, without tcx, one in a network namespace of its own, where
// it also adds a route.
func ReadKernel() Kernel {
	var k Kernel
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		k.Release = unix.ByteSliceToString(uts.Release[:])
	}
	k.Capability, _ = effectiveCapabilities()
	k.FreePorts = freePorts()
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	k.BTF = err == nil
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		k.Memlock = limit.Cur
	}
	k.Classifier = probeProgram(progTypeSchedCLS)
	k.JIT = probeJIT()
	k.XDP = probeProgram(progTypeXDP)
	k.TCX = probeTCX()
	if !k.TCX.Yes && k.TCX.Err == nil {
		k.Clsact = probeClsact()
	}
	k.RingBuffer = probeRingBuffer()
	k.TAI = probeHelper(progTypeSchedCLS, helperKtimeGetTAI)
	k.Segments = probeSegmentRouting()
	return k
}

// Capabilities that the agent needs. CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON, which
// alone are not enough: the kernel opens maps and programs by their id only for
// CAP_SYS_ADMIN.
var neededCapabilities = []struct {
	bit  int
	name string
	why  string
}{
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "attach programs to interfaces"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "mount the BPF file system and open BPF maps and programs by their id"},
}

func effectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32, nil
}

// MissingCapabilities lists the capabilities that the agent lacks.
func MissingCapabilities(effective uint64) []string {
	var missing []string
	for _, c := range neededCapabilities {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, fmt.Sprintf("%s (to %s)", c.name, c.why))
		}
	}
	return missing
}

// freePorts is 1024, unless this network namespace has another value.
func freePorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return 1024
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 1024
	}
	return port
}

const capabilityCure = "run it as root with CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_NET_RAW and CAP_SYS_ADMIN, or give it these with " +
	"AmbientCapabilities and CapabilityBoundingSet in its systemd unit"

// CheckCapabilities returns an error with a cure when this process lacks
// capabilities that a data plane needs.
func CheckCapabilities() error {
	effective, err := effectiveCapabilities()
	if err != nil {
		return err
	}
	if missing := MissingCapabilities(effective); len(missing) > 0 {
		return problem.New(fmt.Sprintf("the agent lacks %s", strings.Join(missing, ", ")), capabilityCure)
	}
	return nil
}

// Check is one row of the results.
type Check struct {
	Name    string   `json:"name"`
	State   string   `json:"state"` // ok, unknown, or the warning's severity
	Detail  string   `json:"detail"`
	Warning *Warning `json:"warning,omitempty"`
}

func passed(name, detail string) Check { return Check{Name: name, State: "ok", Detail: detail} }

func failed(name string, w Warning) Check {
	return Check{Name: name, State: string(w.Severity), Detail: w.Title, Warning: &w}
}

// CheckKernel checks the machine's features.
func CheckKernel(k Kernel) []Check {
	list := []Check{
		passed("kernel", k.Release),
		checkCapability(k),
		checkSupport("bpf programs", k.Classifier, "tc classifiers load",
			New(
				BPFUnusable,
				"",
				"the kernel refuses to load a two-instruction tc classifier",
				"build the kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF, and allow bpf(2) if a security policy (lockdown, seccomp, a user namespace) refuses it",
			)),
		checkSupport("ring buffer", k.RingBuffer, "records reach user space",
			New(RingBufferMissing, "", "the kernel has no BPF ring buffer, through which records reach user space", "use Linux 5.8 or later")),
		checkSupport("tai clock", k.TAI, "programs can read TAI",
			New(TAIUnsupported, "", "programs cannot read TAI (bpf_ktime_get_tai_ns)", "use Linux 6.1 or later")),
		checkSupport(
			"tcx",
			k.TCX,
			"programs attach by tcx",
			New(
				TCXMissing,
				"",
				"the kernel has no tcx (Linux 6.6); programs are attached by clsact, where another tool may remove them",
				"no change is needed unless another tool manages clsact filters on the same interfaces",
			),
		),
		checkSupport("xdp", k.XDP, "programs can run in drivers",
			New(XDPMissing, "", "the kernel has no XDP; tcx or clsact handle packets, somewhat later", "no change is needed")),
		checkSupport("srv6", k.Segments, "routes can have segments",
			New(SegmentsMissing, "", "the kernel has no IPv6 segment routing: this node can neither begin nor end paths of SRv6, nor be a segment of one",
				"no change is needed without SRv6; for it, use a kernel with CONFIG_IPV6_SEG6_LWTUNNEL")),
		checkBTF(k),
		checkSupport(
			"bpf jit",
			k.JIT,
			"programs are compiled",
			New(
				JITDisabled,
				"",
				"the kernel interprets programs (net.core.bpf_jit_enable is 0), several times slower",
				"sysctl -w net.core.bpf_jit_enable=1, in the machine's own network namespace",
			),
		),
		checkMemlock(k),
	}
	if !k.TCX.Yes && k.TCX.Err == nil {
		list = append(list, checkSupport("clsact", k.Clsact, "programs attach by clsact",
			New(ClsactMissing, "", "the kernel has neither tcx nor clsact: packets that leave cannot be treated",
				"use a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF (on OpenWrt: opkg install kmod-sched-core kmod-sched-bpf), "+
					"or Linux 6.6 or later with CONFIG_NET_XGRESS")))
	}
	return list
}

// CheckTime checks the clock; oneClock means that all nodes of the domain share
// it.
func CheckTime(c Clock, oneClock bool) Check {
	if oneClock && !c.Synchronised {
		return passed("clock", "not synchronised; not needed, because all nodes of the domain read it (--one-clock)")
	}
	if ws := checkClock(Node{Clock: c}); len(ws) > 0 {
		return failed("clock", ws[0])
	}
	return passed("clock", fmt.Sprintf("synchronised within %v, TAI − UTC %v", c.MaxError, c.TAIOffset))
}

// stampPort is the lowest port that agents use (RFC 8762 §4.1).
const stampPort = 862

func checkCapability(k Kernel) Check {
	if missing := MissingCapabilities(k.Capability); len(missing) > 0 {
		return failed(
			"capabilities",
			New(
				CapabilityMissing,
				"",
				"this process lacks "+strings.Join(missing, ", ")+": it can neither run an agent nor check whether this machine could",
				capabilityCure,
			),
		)
	}
	if k.Capability&(1<<unix.CAP_NET_RAW) == 0 {
		return failed(
			"capabilities",
			New(PathMTUUnwatched, "", "this process lacks CAP_NET_RAW (to receive and relay ICMPv6 errors about tunnelled packets)", capabilityCure),
		)
	}
	if k.Capability&(1<<unix.CAP_NET_BIND_SERVICE) == 0 && k.FreePorts > stampPort {
		w := New(CapabilityMissing, "", fmt.Sprintf("this process lacks CAP_NET_BIND_SERVICE: an agent like it answers nothing at ports "+
			"below %d, such as STAMP at port %d", k.FreePorts, stampPort),
			capabilityCure+"; or listen at higher ports")
		w.Severity, w.Title = Hint, "the capability for low ports is missing"
		return failed("capabilities", w)
	}
	return passed("capabilities", "all that the agent needs")
}

func checkSupport(name string, s Support, detail string, w Warning) Check {
	switch {
	case s.Yes:
		return passed(name, detail)
	case s.Err == nil:
		return failed(name, w)
	case errors.Is(s.Err, unix.EPERM):
		return notAsked(name)
	default:
		return Check{Name: name, State: "unknown", Detail: s.Err.Error()}
	}
}

func notAsked(name string) Check {
	return Check{Name: name, State: "unknown", Detail: "not permitted; run it as root"}
}

func checkBTF(k Kernel) Check {
	if !k.BTF {
		return failed(
			"btf",
			New(
				BTFMissing,
				"",
				"the kernel has no BTF (/sys/kernel/btf/vmlinux): programs cannot adapt to its structures, and queue depths are \"not available\"",
				"use a kernel with CONFIG_DEBUG_INFO_BTF, like those of distributions",
			),
		)
	}
	return passed("btf", "the kernel has BTF")
}

// smallMemlock is less than the maps of a full configuration need.
const smallMemlock = 256 << 20

// checkMemlock checks the limit only where maps may be charged to it: kernels
// whose programs can read TAI charge maps to the control group.
func checkMemlock(k Kernel) Check {
	switch {
	case k.TAI.Yes:
		return passed("memlock", "maps are charged to the control group")
	case k.TAI.Err != nil:
		return notAsked("memlock")
	case k.Memlock < smallMemlock:
		return failed(
			"memlock",
			New(
				MemlockLimited,
				"",
				fmt.Sprintf("RLIMIT_MEMLOCK is %d bytes, and this kernel may charge BPF maps to it", k.Memlock),
				"ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit)",
			),
		)
	default:
		return passed("memlock", fmt.Sprintf("%d bytes", k.Memlock))
	}
}
