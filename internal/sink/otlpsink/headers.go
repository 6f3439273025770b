// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
)

// mostHeaders bounds a file of headers in octets, and mostFields the headers in it.
const (
	mostHeaders = 64 << 10
	mostFields  = 64
)

// ownHeaders are those of a request that say what its body is and where it goes.
var ownHeaders = map[string]bool{
	"Content-Type": true, "Content-Encoding": true, "Content-Length": true, "Host": true, "Transfer-Encoding": true, "Connection": true,
	"Upgrade": true, "Te": true, "Trailer": true, "Expect": true,
}

// readHeaders reads a file of lines "Name: value", such as "Authorization: Bearer …". Only this user, or
// root, may read or replace it. Errors name lines, and never quote them: they have secrets.
func readHeaders(file string) (http.Header, error) {
	const cure = "write a line such as Authorization: Bearer TOKEN for each header, and run: chmod 600 FILE"
	content, err := secretfile.Read(file, mostHeaders+1, cure)
	if err != nil {
		return nil, err
	}
	if len(content) > mostHeaders {
		return nil, problem.New(fmt.Sprintf("%s has more than %d octets", file, mostHeaders), cure)
	}
	headers, fields := make(http.Header), 0
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key := textproto.CanonicalMIMEHeaderKey(name); {
		case !found || !isToken(name):
			return nil, problem.New(fmt.Sprintf("line %d of %s is no header", i+1, file), cure)
		case ownHeaders[key]:
			return nil, problem.New(fmt.Sprintf("line %d of %s sets %s, which each request has", i+1, file, key), "remove it")
		case value == "" || strings.ContainsFunc(value, unicode.IsControl):
			return nil, problem.New(fmt.Sprintf("line %d of %s has no value, or one with control characters", i+1, file), cure)
		default:
			headers.Add(key, value)
		}
		if fields++; fields > mostFields {
			return nil, problem.New(fmt.Sprintf("%s has more than %d headers", file, mostFields), "remove some")
		}
	}
	return headers, nil
}

// isToken reports whether s is a token of RFC 9110 §5.6.2, as a header's name is.
func isToken(s string) bool {
	for _, r := range s {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return s != ""
}
