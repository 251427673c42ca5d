package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

// received is a receiver's handler. It accepts messages that one of the sender's secrets
// has signed within the last five minutes, as Standard Webhooks define it.
func received(secret string) http.HandlerFunc {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
		if err != nil {
			return
		}
		at, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
			http.Error(w, "too old", http.StatusBadRequest)
			return
		}
		m := hmac.New(sha256.New, key)
		fmt.Fprintf(m, "%s.%d.%s", r.Header.Get("webhook-id"), at, body)
		want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
		for _, signature := range strings.Fields(r.Header.Get("webhook-signature")) {
			if hmac.Equal([]byte(signature), []byte(want)) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		http.Error(w, "wrong signature", http.StatusUnauthorized)
	}
}

// A receiver verifies a message with the secret that the registration of its webhook
// showed once.
func ExampleSign() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	now, body := time.Now(), `{"type":"change"}`
	at := strconv.FormatInt(now.Unix(), 10)
	signed := webhook.Sign([]registry.Secret{{Key: secret}}, "msg_1", at, []byte(body), now)
	for _, b := range []string{body, `{"type":"forged"}`} {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(b))
		r.Header.Set("webhook-id", "msg_1")
		r.Header.Set("webhook-timestamp", at)
		r.Header.Set("webhook-signature", signed)
		w := httptest.NewRecorder()
		received(secret)(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 204
	// 401
}
