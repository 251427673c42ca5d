package service

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Web Push: https://www.rfc-editor.org/rfc/rfc8030, encrypted after RFC 8291 and signed after RFC 8292. A browser gives out
// the address of its push service and two keys. One that is sent again has the same topic and tag, so it is shown once.
var _ = known(&Kind{Name: "webpush", Title: "The push service", Form: "webpush+https://HOST/PATH#KEYS", most: 700,
	check: func(u *url.URL) error {
		u.Fragment, _, _ = strings.Cut(u.Fragment, "&key=") // addresses had the key of the server
		u.RawFragment = ""
		_, _, err := browserKeys(u)
		return err
	},
	request: push,
	reply: func(r *deliver.Reply) {
		switch r.Status {
		case http.StatusNotFound, http.StatusGone:
			gone(r, "the browser wants no more messages: its subscription has ended")
		case http.StatusUnauthorized, http.StatusForbidden:
			r.Said = fmt.Sprintf("the push service answered %d: the browser has subscribed with another key; tell that browser again", r.Status)
		}
	},
})

const (
	pushLife  = 3 * 24 * time.Hour // for which a push service keeps a message
	pushToken = 12 * time.Hour     // for which a signature is valid
	mostPush  = 4096               // bytes of a body that push services take
)

var base64url = base64.RawURLEncoding

// keysOf returns what an address has after #.
func keysOf(u *url.URL) url.Values {
	keys, err := url.ParseQuery(u.Fragment)
	if err != nil {
		return url.Values{}
	}
	return keys
}

// browserKeys returns the public key of a browser, and the secret that it shares.
func browserKeys(u *url.URL) (*ecdh.PublicKey, []byte, error) {
	keys := keysOf(u)
	point, wrong := base64url.DecodeString(strings.TrimRight(keys.Get("p256dh"), "="))
	auth, bad := base64url.DecodeString(strings.TrimRight(keys.Get("auth"), "="))
	if cmp.Or(wrong, bad) != nil || len(point) == 0 || len(auth) != 16 {
		return nil, nil, errors.New("its keys p256dh and auth are missing")
	}
	key, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, nil, errors.New("its key p256dh is no point of P-256")
	}
	return key, auth, nil
}

// NewPushKey returns a key that signs the messages to browsers. A browser takes messages only with the key that it has
// subscribed with, so a server keeps it.
func NewPushKey() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ""
	}
	raw, _ := key.Bytes() // of a key that was just made
	return base64url.EncodeToString(raw)
}

// PublicPushKey is what a browser subscribes with.
func PublicPushKey(key string) (string, error) {
	k, err := pushKey(key)
	if err != nil {
		return "", err
	}
	raw, err := k.PublicKey.Bytes()
	return base64url.EncodeToString(raw), err
}

func pushKey(key string) (*ecdsa.PrivateKey, error) {
	raw, err := base64url.DecodeString(key)
	if err != nil {
		return nil, errors.New("the key for messages to browsers cannot be read")
	}
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
}

// push encrypts a message and signs its request.
func push(u *url.URL, m *Message) request {
	at := *u
	at.Fragment, at.RawFragment = "", ""
	topic := sha256.Sum256([]byte(m.ID))
	q := request{url: at.String(), header: http.Header{"Content-Type": {"application/octet-stream"}, "Content-Encoding": {"aes128gcm"},
		"Ttl": {fmt.Sprint(int(pushLife.Seconds()))}, "Urgency": {"normal"}, "Topic": {base64url.EncodeToString(topic[:24])}}}
	if m.State == registry.AlertFiring {
		q.header.Set("Urgency", "high")
	}
	theirs, auth, err := browserKeys(u)
	mine, wrong := ecdh.P256().GenerateKey(rand.Reader)
	if q.err = errors.Join(err, wrong); q.err != nil {
		return q
	}
	salt := make([]byte, 16)
	rand.Read(salt)
	body, err := sealed(pushed(m), theirs, auth, mine, salt)
	signature, wrong := vapid(u, m)
	q.text, q.err = string(body), errors.Join(err, wrong)
	q.header.Set("Authorization", signature)
	return q
}

// pushed writes what the service worker of the pages reads, as long as push services take it.
func pushed(m *Message) []byte {
	for text := m.Text; ; {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(map[string]string{"title": m.Title, "body": text, "url": m.Link, "tag": m.ID})
		if err != nil || text == "" || b.Len() <= mostPush-recordHead-17 {
			return bytes.TrimSpace(b.Bytes())
		}
		if n := len([]rune(text)); n > 4 {
			text = Cut(text, n*3/4)
		} else {
			text = ""
		}
	}
}

// recordHead is the size of what comes before the encrypted text: a salt, the size of records, and a public key.
const recordHead = 16 + 4 + 1 + 65

// sealed encrypts a text for a browser (RFC 8291, section 3.4) in one record of aes128gcm (RFC 8188).
func sealed(text []byte, theirs *ecdh.PublicKey, auth []byte, mine *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	shared, err := mine.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	public := mine.PublicKey().Bytes()
	derive := func(secret, salt []byte, info string, n int) []byte {
		key, wrong := hkdf.Key(sha256.New, secret, salt, info, n)
		err = errors.Join(err, wrong)
		return key
	}
	secret := derive(shared, auth, "WebPush: info\x00"+string(theirs.Bytes())+string(public), 32)
	key, nonce := derive(secret, salt, "Content-Encoding: aes128gcm\x00", 16), derive(secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32(bytes.Clone(salt), mostPush)
	head = append(append(head, byte(len(public))), public...)
	return gcm.Seal(head, nonce, append(bytes.Clone(text), 2), nil), nil // 2 ends the last record
}

// vapid signs a request to a push service.
func vapid(u *url.URL, m *Message) (string, error) {
	if m.Key == nil {
		return "", errors.New("this server has no key for messages to browsers")
	}
	own, err := m.Key()
	if err != nil {
		return "", err
	}
	key, err := pushKey(own)
	if err != nil {
		return "", err
	}
	claims := map[string]any{"aud": u.Scheme + "://" + u.Host, "exp": m.now.Add(pushToken).Unix()}
	if strings.HasPrefix(m.From, "https://") {
		claims["sub"] = m.From
	}
	body, err := json.Marshal(claims)
	public, wrong := key.PublicKey.Bytes()
	if err = errors.Join(err, wrong); err != nil {
		return "", err
	}
	token := base64url.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + base64url.EncodeToString(body)
	sum := sha256.Sum256([]byte(token))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return "vapid t=" + token + "." + base64url.EncodeToString(signature) + ", k=" + base64url.EncodeToString(public), nil
}
