// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/record"
)

// usualURL is where a collector without a file answers.
const usualURL = "http://[::1]:4780"

// client are the flags that say which collector is asked, and by whom.
type client struct{ address, ca, user, password string }

func (c *client) add(cmd *cobra.Command) {
	c.address = usualURL
	cmd.Flags().StringVar(&c.address, "collector", c.address, "`URL` of the collector's API")
	cmd.Flags().StringVar(&c.ca, "ca", "", "`FILE` of the authority that signed the collector's certificate (default: those of the system)")
	cmd.Flags().StringVar(&c.user, "user", "", "`NAME` of a user of the collector")
	cmd.Flags().StringVar(&c.password, "password-file", "", "`FILE` with the user's password")
}

const (
	// mostAnswer bounds an answer of the API.
	mostAnswer = 256 << 20
	// mostFile bounds files of flags.
	mostFile = 1 << 20
)

// errAbsent is the error when no collector answers at the address.
var errAbsent = errors.New("no collector answers")

// request makes a request with the user's password.
func (c *client) request(ctx context.Context, base *url.URL, path string, ask url.Values) (*http.Request, error) {
	to := base.JoinPath(path)
	to.RawQuery = ask.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil || c.user == "" {
		return request, err
	}
	if c.password == "" {
		return nil, commandline.Usagef("--user needs --password-file")
	}
	text, err := inputfile.Read(c.password, mostFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	request.SetBasicAuth(c.user, strings.TrimSuffix(line, "\r"))
	return request, nil
}

// transport trusts who signed the collector's certificate.
func (c *client) transport() (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if c.ca == "" {
		return t, nil
	}
	text, err := inputfile.Read(c.ca, mostFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", c.ca)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// get asks a collector.
func (c *client) get(ctx context.Context, path string, ask url.Values, into any) error {
	base, err := url.Parse(c.address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return commandline.Usagef("--collector %q: want a URL, such as %s", c.address, usualURL)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := c.request(ctx, base, path, ask)
	if err != nil {
		return err
	}
	transport, err := c.transport()
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w; start it with 'waymark-collector run', or name its address with --collector", errAbsent, err)
	}
	defer response.Body.Close()
	body := io.LimitReader(response.Body, mostAnswer)
	if response.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		if err := json.NewDecoder(body).Decode(&failed); err != nil || failed.Error == "" {
			return fmt.Errorf("%s answers %s; name the address of a collector's API", base, response.Status)
		}
		return errors.New(record.Printable(failed.Error))
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not that of a collector: %w", base, err)
	}
	return nil
}
