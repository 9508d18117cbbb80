-- Read what was revoked as of one moment.
-- KEYS  1 version  2 revoked
return {redis.call('GET', KEYS[1]) or '0', redis.call('ZRANGE', KEYS[2], 0, -1)}
