-- Forget what readers were given, and what whoever they turned out to be was given.
-- KEYS  1 reader id -> packed exposure  2 person -> their other reader ids, each as <length>:<id>
-- ARGV  reader ids
-- Gives how many reader ids were forgotten.
local gone = 0
for i = 1, #ARGV do
  local packed = redis.call('HGET', KEYS[1], ARGV[i])
  local person = ARGV[i]
  if packed then
    person = string.match(packed, '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$') or person
  end
  local others = redis.call('HGET', KEYS[2], person) or ''
  local at = 1
  while at <= #others do
    local colon = string.find(others, ':', at, true)
    local length = tonumber(string.sub(others, at, colon - 1))
    gone = gone + redis.call('HDEL', KEYS[1], string.sub(others, colon + 1, colon + length))
    at = colon + length + 1
  end
  gone = gone + redis.call('HDEL', KEYS[1], person) + redis.call('HDEL', KEYS[1], ARGV[i])
  redis.call('HDEL', KEYS[2], person)
end
return gone
