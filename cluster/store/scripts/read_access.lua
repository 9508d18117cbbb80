-- Read all apps and keys as of one moment.
-- KEYS  1 version  2 apps  3 keys
return {redis.call('GET', KEYS[1]) or '0', redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[3])}
