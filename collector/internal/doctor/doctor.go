// SPDX-License-Identifier: Apache-2.0

// Package doctor checks whether a machine has what a collector with some settings needs, and what a running one
// says of itself. Facts are read by one function, and judged by others, which are pure.
package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/ipfix"
)

// Codes of warnings.
const (
	ExporterClockWrong health.Code = "exporter_clock_wrong"
	CertificateEnds    health.Code = "certificate_ends"
	CollectorProblem   health.Code = "collector_problem"
	DatagramsDropped   health.Code = "datagrams_dropped"
	DiskShort          health.Code = "disk_short"
	PortTaken          health.Code = "port_taken"
	ReceiveBufferSmall health.Code = "receive_buffer_small"
	RecordsMissing     health.Code = "records_missing"
	SecretReadable     health.Code = "secret_readable"
	StoreUnwritable    health.Code = "store_unwritable"
	SettingsUnusable   health.Code = "settings_unusable"
)

var titles = map[health.Code]string{
	health.ClockUnsynced: "the clock is not synchronised",
	ExporterClockWrong:   "the clock of an exporter is wrong",
	CertificateEnds:      "a certificate ends, or cannot be read",
	CollectorProblem:     "the running collector has a problem",
	DatagramsDropped:     "the kernel had no room for datagrams",
	DiskShort:            "the disk of the store is short of space",
	PortTaken:            "a port cannot be opened",
	ReceiveBufferSmall:   "bursts of datagrams do not fit the sockets' buffers",
	RecordsMissing:       "records did not come, or were lost",
	SecretReadable:       "others can read a secret",
	StoreUnwritable:      "the store's directory cannot be used",
	SettingsUnusable:     "what the settings name cannot be used",
}

func warn(code health.Code, severity health.Severity, text, cure string) *health.Warning {
	return &health.Warning{Code: code, Severity: severity, Title: titles[code], Text: text, Cure: cure}
}

func passed(name, detail string) health.Check {
	return health.Check{Name: name, State: "ok", Detail: detail}
}

func failed(name string, w *health.Warning) health.Check {
	return health.Check{Name: name, State: string(w.Severity), Detail: w.Title, Warning: w}
}

// Port is one that the settings have.
type Port struct {
	Name  string // as in the settings
	Fault error  // why it cannot be opened; nil: it can
}

// Secret is a file that only the collector may read.
type Secret struct {
	Path   string
	Others bool // others than its owner and group may read it
}

// Ending is a certificate.
type Ending struct {
	Path  string
	Until time.Time
	Fault error
}

// Facts are those of a machine, for some settings.
type Facts struct {
	Now          time.Time
	Ports        []Port
	Directory    string
	Unwritable   error  // why the directory cannot be written; nil: it can
	New          bool   // the directory is not there yet
	Used         bool   // another process has the store open
	Free, Total  uint64 // octets of its disk
	Reserve      uint64 // octets that are to stay free
	Running      bool   // a collector has the ports, and says what its sockets have
	Service      *Unit  // with these settings; nil: there is none
	Buffer       int    // octets that a UDP socket gets
	Clock        *health.Clock
	Certificates []Ending
	Secrets      []Secret
	Unusable     error // what the settings name; nil: all is there
}

// Read reads the facts. running: a collector has the ports. service is the one with these settings; nil: there is none.
func Read(s *settings.Settings, running bool, service *Unit) *Facts {
	f := &Facts{Now: time.Now(), Directory: s.Store.Directory, Reserve: uint64(s.Store.Free), Running: running, Service: service}
	if !running {
		f.ports(s)
		f.Used = store.IsOpen(f.Directory)
	}
	f.disk()
	if f.Buffer = buffer(collect.ReceiveBuffer); service != nil { // which may not exceed the system's limit
		f.Buffer = min(f.Buffer, mostBuffer())
	}
	if clock, err := health.ReadClock(); err == nil {
		f.Clock = &clock
	}
	if s.TLS != nil {
		f.Certificates = append(f.Certificates, certificateIn(s.TLS.Certificate))
		f.secret(s.TLS.Key)
	}
	if s.API.Web != "" {
		leaf, err := access.Certificate(s.API.Web)
		if err != nil || leaf != nil {
			f.Certificates = append(f.Certificates, ending(s.API.Web, leaf, err))
		}
		for _, path := range access.Secrets(s.API.Web) {
			f.secret(path)
		}
	}
	if s.API.OIDC != nil {
		f.secret(s.API.OIDC.SecretFile)
	}
	_, f.Unusable = s.Collect()
	if f.Unusable == nil {
		var c access.Config
		if c, f.Unusable = s.Access(nil); f.Unusable == nil {
			_, f.Unusable = access.New(c)
		}
	}
	return f
}

func (f *Facts) secret(path string) {
	if slices.ContainsFunc(f.Secrets, func(s Secret) bool { return s.Path == path }) {
		return
	}
	if info, err := os.Stat(path); err == nil {
		f.Secrets = append(f.Secrets, Secret{path, info.Mode().Perm()&0o004 != 0})
	}
}

// ports tries to open each port, and closes it at once.
func (f *Facts) ports(s *settings.Settings) {
	for _, e := range s.Endpoints() {
		var c interface{ Close() error }
		var err error
		if e.Transport == ipfix.UDP {
			c, err = net.ListenPacket("udp", e.Address.String())
		} else {
			c, err = net.Listen("tcp", e.Address.String())
		}
		if err == nil {
			err = c.Close()
		}
		f.Ports = append(f.Ports, Port{e.String(), err})
	}
	l, err := net.Listen("tcp", s.API.Listens())
	if err == nil {
		err = l.Close()
	}
	f.Ports = append(f.Ports, Port{string(s.API.Address), err})
}

// disk looks at the store's directory, or at the nearest one above that is there.
func (f *Facts) disk() {
	at := f.Directory
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			f.Unwritable = errors.New(at + " is a file, no directory")
			return
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at, f.New = filepath.Dir(at), true
	}
	if f.Unwritable = unix.Access(at, unix.W_OK|unix.X_OK); f.Unwritable != nil {
		f.Unwritable = &fs.PathError{Op: "write", Path: at, Err: f.Unwritable}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(at, &disk); err == nil {
		f.Free, f.Total = disk.Bavail*uint64(disk.Bsize), disk.Blocks*uint64(disk.Bsize)
	}
}

// mostBuffer is the system's limit of a socket's buffer.
func mostBuffer() int {
	text, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		return collect.ReceiveBuffer
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return collect.ReceiveBuffer
	}
	return n
}

// buffer is how large a buffer a UDP socket of this process gets.
func buffer(want int) int {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	size, err := collect.EnlargeBuffer(fd, want)
	if err != nil {
		return 0
	}
	return size
}

func certificateIn(path string) Ending {
	text, err := os.ReadFile(path)
	if err != nil {
		return Ending{Path: path, Fault: err}
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return Ending{Path: path, Fault: errors.New("it has no certificate in PEM")}
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	return ending(path, leaf, err)
}

func ending(path string, leaf *x509.Certificate, err error) Ending {
	if err != nil {
		return Ending{Path: path, Fault: err}
	}
	return Ending{Path: path, Until: leaf.NotAfter}
}

// isTaken reports whether another socket has a port.
func isTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

func megabytes(octets uint64) string { return fmt.Sprintf("%d MB", octets/1e6) }
