-- Keep what a write under an Idempotency-Key answered; nothing when its lock ran out meanwhile.
-- KEYS  1 the key's record
-- ARGV  1 status  2 reply  3 life ms  4 pseudonyms of whom the answer is about
--       5 its headers
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'done', 'status', ARGV[1], 'reply', ARGV[2], 'readers', ARGV[4],
  'headers', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
