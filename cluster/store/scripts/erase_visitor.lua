-- Forget visitors who are linked to nobody, and log that.
-- KEYS  1 change log  2 links  3... recent list of each visitor
-- ARGV  1 change payload  2... anonymous ids
-- Gives 1, or 0 when one of them is linked by now: then nothing is written.
for at = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 1 then
    return 0
  end
end
for k = 3, #KEYS do
  redis.call('DEL', KEYS[k])
end
redis.call('XADD', KEYS[1], '*', 'op', 'erase', 'payload', ARGV[1], 'copy', ARGV[1])
return 1
