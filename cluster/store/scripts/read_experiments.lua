-- Read all experiments of an app with their version, at one moment.
-- KEYS  1 version  2 experiments
-- ARGV  none
return {redis.call('GET', KEYS[1]) or '0', redis.call('HGETALL', KEYS[2])}
