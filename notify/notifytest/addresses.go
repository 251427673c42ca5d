package notifytest

// SecretAddresses are addresses of all kinds of services, with the secret SESAME in every place where one may be.
// Tests look for it in what the server shows. Nothing listens there.
var SecretAddresses = map[string]string{
	"apprise":    "apprise+http://SESAME@127.0.0.1:1/notify/SESAME?urls=mailto://u:SESAME@h.example",
	"discord":    "discord+http://127.0.0.1:1/api/webhooks/1/SESAME",
	"gotify":     "gotify+http://127.0.0.1:1?token=abc@SESAME",
	"markdown":   "markdown+http://SESAME@127.0.0.1:1/SESAME?key=SESAME#%7Btext%7DSESAME",
	"matrix":     "matrix+http://SESAME@127.0.0.1:1/!SESAME:h.example",
	"mattermost": "mattermost+http://127.0.0.1:1/hooks/SESAME",
	"ntfy":       "ntfy+http://tk_SESAME@127.0.0.1:1/topicSESAME",
	"pushover":   "pushover+http://SESAME:SESAME@127.0.0.1:1/",
	"slack":      "slack+http://127.0.0.1:1/services/T0/B0/SESAME",
	"teams":      "teams+http://127.0.0.1:1/workflows/SESAME?sig=SESAME",
	"telegram":   "telegram+http://123:SESAME@127.0.0.1:1/-1SESAME",
	"text":       "text+http://SESAME:SESAME@127.0.0.1:1?k=@SESAME#@SESAME",
	"webpush": "webpush+http://127.0.0.1:1/SESAME" +
		"#p256dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" +
		"&auth=SESAMEqH6r4Tts7J_aSIgg",
}
