// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
)

// maxRequest bounds the body of a request.
const maxRequest = 1 << 20

// Answer answers with a body as JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the client has gone
}

// Refuse answers with the error; the status is 4xx when the request is wrong.
func Refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var faults config.Faults
	var refused refusal
	var bad misunderstood
	var missing missingError
	var ambiguous *config.AmbiguousError
	body := api.Error{Message: err.Error()}
	switch {
	case errors.As(err, &ambiguous):
		status, body.Encapsulations = http.StatusConflict, ambiguous.Fit
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &faults), errors.As(err, &refused):
		status = http.StatusUnprocessableEntity
	}
	body.Faults = faults
	Answer(w, status, body)
}

// misunderstood is the error of a request that cannot be understood.
type misunderstood struct{ err error }

func (m misunderstood) Error() string { return m.err.Error() }

// BadRequest is the error of a request that cannot be understood.
func BadRequest(err error) error { return misunderstood{err} }

// missingError is the error of a request to change something that does not exist.
type missingError struct{ err error }

func (m missingError) Error() string { return m.err.Error() }

// NotFound is the error of a request to change something that does not exist.
func NotFound(err error) error { return missingError{err} }

// Decode reads a request's body into v, strictly.
func Decode(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		return BadRequest(fmt.Errorf("read the request: %w", err))
	}
	if len(body) > maxRequest {
		return BadRequest(fmt.Errorf("the request has more than %d bytes", maxRequest))
	}
	if u, ok := v.(json.Unmarshaler); ok {
		err := u.UnmarshalJSON(body)
		var faults config.Faults
		if errors.As(err, &faults) {
			for _, f := range faults {
				f.File = "request"
			}
		}
		if err != nil {
			return BadRequest(err)
		}
		return nil
	}
	if err := unmarshalStrict(body, v); err != nil {
		return BadRequest(fmt.Errorf("the request is not valid: %w", err))
	}
	return nil
}

func unmarshalStrict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// Done answers a change that succeeded.
func Done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// NonNil makes JSON show an empty list instead of null.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// refusal is an edit that does not fit the running configuration.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

// Refused is the error of an edit that does not fit the running configuration.
func Refused(err error) error { return refusal{err} }
