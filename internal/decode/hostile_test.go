// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
)

// decodeChild is set in a separate process that decodes standard input, and reports the
// memory it used.
const decodeChild = "WAYMARK_DECODE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(decodeChild) == "" {
		os.Exit(m.Run())
	}
	s, _, err := Capture(os.Stdin, record.Clock{}, func(record.Record) error { return nil }, func(err error) { fmt.Println("fault:", err) })
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Print(line)
		}
	}
	fmt.Printf("packets: %d records: %d %v\n", s.Packets, s.Records, err)
}

// decodeApart decodes what write writes, compressed, in a separate process. It returns
// the process's maximum memory in KiB, its output, and the size of the compressed file.
func decodeApart(t *testing.T, write func(w io.Writer)) (peak int, printed string, size int) {
	t.Helper()
	var file bytes.Buffer
	z, err := gzip.NewWriterLevel(&file, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	size = file.Len()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), decodeChild+"=1")
	cmd.Stdin = &file
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, rest, ok := strings.Cut(string(out), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &peak); !ok || err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return peak, string(out), size
}

// ngBlock is a block of pcapng.
func ngBlock(kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)+blockFrame))
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, uint32(len(body)+blockFrame))
}

func ngSection() []byte {
	return ngBlock(blockSection, []byte{0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})
}

// ngInterfaceBlock describes an interface of raw IP with options.
func ngInterfaceBlock(options ...[]byte) []byte {
	return ngBlock(blockInterface, append([]byte{byte(LinkRaw), 0, 0, 0, 0, 0, 0, 0}, bytes.Join(options, nil)...))
}

func ngOption(code uint16, value []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

func ngPacket(packet []byte, options ...[]byte) []byte {
	b := make([]byte, 12, 20+len(packet))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(packet)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(packet)))
	b = append(b, packet...)
	b = append(b, make([]byte, -len(packet)&3)...)
	return ngBlock(blockEnhancedPacket, append(b, bytes.Join(options, nil)...))
}

// pcapHead is a pcap file's header with a snap length.
func pcapHead(link LinkType, snapLength uint32) []byte {
	b := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	b = binary.LittleEndian.AppendUint32(b, snapLength)
	return binary.LittleEndian.AppendUint32(b, uint32(link))
}

func zeros(w io.Writer, n int) {
	const chunk = 1 << 20
	for b := make([]byte, chunk); n > 0; n -= chunk {
		_, _ = w.Write(b[:min(n, chunk)]) // into memory
	}
}

// much is the size to which the small files of these tests expand, or a part of it.
const much = 200 << 20

func put(w io.Writer, blocks ...[]byte) {
	for _, b := range blocks {
		_, _ = w.Write(b) // into memory
	}
}

// repeat writes much of a block.
func repeat(w io.Writer, block []byte) {
	for n := 0; n < much; n += len(block) {
		put(w, block)
	}
}

// huge is a block with a body of zeros, after a head.
func huge(w io.Writer, kind uint32, head []byte, body int) {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	put(w, binary.LittleEndian.AppendUint32(b, uint32(blockFrame+len(head)+body)), head)
	zeros(w, body)
	put(w, binary.LittleEndian.AppendUint32(nil, uint32(blockFrame+len(head)+body)))
}

// claimed is the header of a packet: no time, and its length twice.
func claimed(n uint32) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 12), n)
	return binary.LittleEndian.AppendUint32(b, n)
}

// hostile is a capture, and what decoding it prints.
type hostile struct {
	name  string
	write func(w io.Writer)
	want  string
}

// fits is printed where the only packet is found.
const fits = "packets: 1 records: 1"

// keeping are captures with much data that a reader may keep.
func keeping(packet []byte) []hostile {
	long := ngOption(optionName, bytes.Repeat([]byte("x"), 60_000))
	return []hostile{
		{"interfaces", func(w io.Writer) { put(w, ngSection()); repeat(w, ngInterfaceBlock()) }, "more than 16384 interfaces; capture on fewer"},
		{"names of interfaces", func(w io.Writer) {
			put(w, ngSection())
			repeat(w, ngInterfaceBlock(long))
			put(w, ngPacket(packet))
		}, fits},
		{"other options of interfaces", func(w io.Writer) {
			put(w, ngSection())
			repeat(w, ngInterfaceBlock(ngOption(3, make([]byte, 60_000)), ngOption(11, make([]byte, 60_000)), ngOption(1, make([]byte, 60_000))))
			put(w, ngPacket(packet))
		}, fits},
		{"resolved names", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			repeat(w, ngBlock(4, append(ngOption(1, append([]byte{192, 0, 2, 1}, bytes.Repeat([]byte("host.example\x00"), 4000)...)), 0, 0, 0, 0)))
			put(w, ngPacket(packet))
		}, fits},
		{"secrets", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			repeat(w, ngBlock(10, append([]byte{0x4b, 0x53, 0x4c, 0x54, 0x60, 0xea, 0, 0}, make([]byte, 60_000)...)))
			put(w, ngPacket(packet))
		}, fits},
		{"comments of a packet", func(w io.Writer) {
			comment := ngOption(1, make([]byte, 60_000))
			put(w, ngSection(), ngInterfaceBlock(), ngPacket(packet, bytes.Repeat(comment, much/len(comment))))
		}, fits},
	}
}

// claiming are captures with large packets, and endless ones without any.
func claiming() []hostile {
	return []hostile{
		{"a packet", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			huge(w, blockEnhancedPacket, claimed(much), much)
		}, "packet 1 at offset 28: the record has 209715200 bytes, more than the limit of 4194304; the file is damaged, or shorten its packets with editcap"},
		{"a simple packet", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			huge(w, blockSimplePacket, binary.LittleEndian.AppendUint32(nil, much), much)
		}, "more than the limit of 4194304"},
		{"a packet of pcap", func(w io.Writer) {
			put(w, pcapHead(LinkRaw, 1<<32-1), claimed(much)[4:])
			zeros(w, much)
		}, "packet 1 at offset 24: the record has 209715200 bytes"},
		{"an unknown block", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			huge(w, 0x0bad, nil, maxSilence+much)
		}, "bytes without a packet, more than the limit of 268435456; the file is damaged, or"},
		{"unknown blocks", func(w io.Writer) {
			put(w, ngSection(), ngInterfaceBlock())
			repeat(w, ngBlock(0x0bad, make([]byte, 1000)))
			repeat(w, ngBlock(0x0bad, make([]byte, 1000)))
		}, "bytes without a packet"},
		{"sections", func(w io.Writer) { repeat(w, ngSection()); repeat(w, ngSection()) }, "bytes without a packet"},
		{"records without a packet", func(w io.Writer) {
			put(w, pcapHead(LinkRaw, 65536))
			zeros(w, maxSilence+much)
		}, "bytes without a packet"},
		{"zeros", func(w io.Writer) { zeros(w, much) }, "neither a pcap nor a pcapng capture"},
		{"zeros after a section", func(w io.Writer) { put(w, ngSection()); zeros(w, much) }, "a block of 0 bytes is too short"},
	}
}

// TestHostileCaptures decodes small files that expand to hundreds of megabytes of each
// kind of data that a reader might keep: memory stays bounded, and the error says what
// is wrong and how to fix it, unless the rest can be read.
func TestHostileCaptures(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	base, printed, _ := decodeApart(t, func(w io.Writer) { put(w, ngSection(), ngInterfaceBlock(), ngPacket(packet)) })
	if !strings.Contains(printed, fits) {
		t.Fatalf("%q", printed)
	}
	for _, tt := range append(keeping(packet), claiming()...) {
		t.Run(tt.name, func(t *testing.T) {
			peak, printed, size := decodeApart(t, tt.write)
			t.Logf("%d KiB of %d bytes, %d more than for one packet", peak, size, peak-base)
			if !strings.Contains(printed, tt.want) {
				t.Errorf("%q, want %q", printed, tt.want)
			}
			if tt.want == fits && strings.Contains(printed, "fault:") {
				t.Errorf("%q", printed)
			}
			if peak-base > 64<<10 {
				t.Errorf("%d KiB of memory, %d for a capture of one packet", peak, base)
			}
		})
	}
}

// TestLargeCaptures reads large valid captures: packets that a kernel merged, and many
// interfaces.
func TestLargeCaptures(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	for _, size := range []int{9000, 64 << 10, 256 << 10, 512<<10 + 100, maxCaptured} {
		long := append(bytes.Clone(packet), make([]byte, size-len(packet))...)
		old := append(pcapHead(LinkRaw, uint32(size)), make([]byte, 8)...)
		old = binary.LittleEndian.AppendUint32(old, uint32(size))
		old = append(binary.LittleEndian.AppendUint32(old, uint32(size)), long...)
		for format, capture := range map[string][]byte{
			"pcap":   old,
			"pcapng": bytes.Join([][]byte{ngSection(), ngInterfaceBlock(), ngPacket(long)}, nil),
		} {
			if r := decodeCapture(t, capture); len(r.records) != 1 || len(r.faults) > 0 {
				t.Errorf("%s of %d bytes: %d records, faults %q", format, size, len(r.records), r.faults)
			}
		}
	}
	many := ngSection()
	for i := range maxInterfaces {
		many = append(many, ngInterfaceBlock(ngOption(optionName, fmt.Appendf(nil, "veth%d", i)))...)
	}
	last := ngPacket(packet)
	binary.LittleEndian.PutUint32(last[blockHead:], maxInterfaces-1)
	r := decodeCapture(t, append(many, last...))
	if want := fmt.Sprintf("veth%d", maxInterfaces-1); len(r.records) != 1 || r.records[0].Interface != want {
		t.Errorf("%+v, faults %q", r.records, r.faults)
	}
}
