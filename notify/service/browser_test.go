package service_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/service"
)

// A fakeBrowser has subscribed at a push service. It reads messages as the RFCs say, with no code of the product.
type fakeBrowser struct {
	key    *ecdh.PrivateKey
	auth   []byte
	server string // the key that signs
}

var browser = func() fakeBrowser {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	auth := make([]byte, 16)
	rand.Read(auth)
	return fakeBrowser{key, auth, service.NewPushKey()}
}()

func (b fakeBrowser) address(host string) string {
	text := base64.RawURLEncoding.EncodeToString
	return "webpush+http://" + host + "/push/secretP#p256dh=" + text(b.key.PublicKey().Bytes()) + "&auth=" + text(b.auth)
}

func hash(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// open checks who has sent a message, and decrypts it.
func (b fakeBrowser) open(t *testing.T, q got) string {
	t.Helper()
	if q.header.Get("Content-Encoding") != "aes128gcm" || q.header.Get("TTL") == "" || len(q.header.Get("Topic")) > 32 ||
		len(q.body) > 4096 || q.query != "" {
		t.Errorf("%v", q.header)
	}
	b.signed(t, q.header)
	body := []byte(q.body)
	salt, size, sender, sealed := body[:16], body[16:20], body[21:21+int(body[20])], body[21+int(body[20]):]
	theirs, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := b.key.ECDH(theirs)
	if err != nil {
		t.Fatal(err)
	}
	secret := hash(hash(b.auth, string(shared)), "WebPush: info\x00", string(b.key.PublicKey().Bytes()), string(sender), "\x01")
	pseudo := hash(salt, string(secret))
	key, nonce := hash(pseudo, "Content-Encoding: aes128gcm\x00\x01")[:16], hash(pseudo, "Content-Encoding: nonce\x00\x01")[:12]
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	text, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil || text[len(text)-1] != 2 || len(sealed) > int(size[2])<<8+int(size[3]) {
		t.Fatalf("%v, a record of %d bytes", err, len(sealed))
	}
	return string(text[:len(text)-1])
}

// signed checks the signature of a request.
func (b fakeBrowser) signed(t *testing.T, h http.Header) {
	t.Helper()
	raw := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return b
	}
	rest, ok := strings.CutPrefix(h.Get("Authorization"), "vapid t=")
	token, public, both := strings.Cut(rest, ", k=")
	if want, err := service.PublicPushKey(b.server); !ok || !both || err != nil || public != want {
		t.Fatalf("%s, %v", h.Get("Authorization"), err)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw(public))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(token, ".")
	sum, signature := sha256.Sum256([]byte(token[:at])), raw(token[at+1:])
	if len(signature) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		t.Error("the signature is wrong")
	}
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(raw(strings.Split(token, ".")[1]), &claims); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(time.Unix(claims.Exp, 0)); left < time.Hour || left > 24*time.Hour ||
		claims.Sub != "https://fresh.example" || !strings.HasPrefix(claims.Aud, "http://127.0.0.1:") {
		t.Errorf("%+v", claims)
	}
}
