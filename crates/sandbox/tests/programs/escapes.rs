//! Ways round the C library's usual functions: programs that clear their environment, functions that start a shell by themselves, links of
//! the kernel's, old system calls.

use crate::world::World;

#[test]
fn a_program_that_clears_its_environment_stays_inside() {
    let world = World::new();
    let said = world.shell("env -i /bin/sh -c 'echo inner > a.txt; env -i /bin/cat a.txt'; cat a.txt");
    assert_eq!(said, "inner\ninner\n");
}

#[test]
fn functions_that_start_a_shell_put_back_what_the_program_took_out() {
    let world = World::new();
    let said = world.python(
        "
import ctypes, os
libc = ctypes.CDLL(None)
for name in ('LD_PRELOAD', 'HIGHWATER_SANDBOX', 'HIGHWATER_SANDBOX_PASS'): os.environ.pop(name)
os.system('echo by system > a.txt')
libc.popen.restype, libc.pclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
os.environ.pop('LD_PRELOAD', None); libc.unsetenv(b'LD_PRELOAD')
libc.pclose(libc.popen(b'echo by popen > b.txt', b'r'))
libc.unsetenv(b'LD_PRELOAD')
words = (ctypes.c_char * 64)()
libc.wordexp(b'$(echo by wordexp > data/c.txt; echo two words)', words, 0)
print(open('a.txt').read(), open('b.txt').read(), open('data/c.txt').read(), int.from_bytes(words[:8], 'little'))
",
    );
    assert_eq!(said, "by system\n by popen\n by wordexp\n 2\n");
}

#[test]
fn programs_are_started_with_arguments_one_by_one() {
    let world = World::new();
    let said = world.python(
        "
import ctypes, os
libc = ctypes.CDLL(None)
libc.unsetenv(b'LD_PRELOAD')
script = b'echo \"$0 $# $*\" > a.txt; cat a.txt; echo ${OWN-none} >> b.txt'
def child(call):
    pid = os.fork()
    if not pid:
        call()
        os._exit(9)
    assert os.waitpid(pid, 0)[1] == 0
text = ctypes.c_char_p
few, many = [text(b'sh'), text(b'-c'), text(script), text(b'zero')], [text(str(n).encode()) for n in range(7)]
child(lambda: libc.execl(text(b'/bin/sh'), *few, text(None)))
child(lambda: libc.execlp(text(b'sh'), *few, *many, text(None)))
variables = (text * 3)(b'OWN=given', b'PATH=/usr/bin:/bin', None)
child(lambda: libc.execle(text(b'/bin/sh'), *few, *many[:2], text(None), variables))
assert libc.execl(text(b'/nowhere/sh'), *few, *many, text(None)) == -1
print(open('b.txt').read().split())
",
    );
    assert_eq!(said, "zero 0 \nzero 7 0 1 2 3 4 5 6\nzero 2 0 1\n['second', 'none', 'none', 'given']\n");
}

#[test]
fn links_of_the_kernel_do_not_lead_out() {
    let world = World::new();
    let said = world.python(
        "
import os
here, pid = os.getcwd(), os.getpid()
open('/proc/self/cwd/a.txt', 'w').write('cwd')
open(f'/proc/self/root{here}/b.txt', 'w').write('root')
open(f'/proc/{pid}/task/{pid}/cwd/data/c.txt', 'w').write('task')
descriptor = os.open('data/deep/d.txt', os.O_RDONLY)
open(f'/proc/self/fd/{descriptor}', 'w').write('fd')
directory = os.open('.', os.O_PATH)
open(f'/dev/fd/{directory}/empty/new', 'w').write('directory')
os.mkdir(f'/proc/thread-self/cwd/made'); os.chmod(f'/proc/self/fd/{directory}', 0o700)
os.rename('/proc/self/cwd/made', f'/proc/self/fd/{directory}/moved')
print([open(name).read() for name in ('a.txt', 'b.txt', 'data/c.txt', 'data/deep/d.txt', 'empty/new')], sorted(os.listdir()))
os.chdir('/proc/self'); open('cwd/../self/root' + here + '/a.txt', 'a').write(' again'); print(open(here + '/a.txt').read())
",
    );
    assert_eq!(
        said,
        "['cwd', 'root', 'task', 'fd', 'directory'] ['a.txt', 'b.txt', 'data', 'empty', 'moved', 'to_a', 'to_data']\ncwd again\n"
    );
}

#[test]
fn descriptors_that_are_open_for_writing_are_opened_again() {
    let world = World::new();
    let said = world.python(
        "
import ctypes, os, tempfile
with open('/dev/stdout', 'w') as out: out.write('to standard output\\n')
reader, writer = os.pipe()
with open(f'/proc/self/fd/{writer}', 'w') as pipe: pipe.write('through a pipe')
print(os.read(reader, 99))
with tempfile.TemporaryFile(dir='.') as file:
    with open(f'/dev/fd/{file.fileno()}', 'w') as same: same.write('no name')
    print(file.read())
unnamed = os.open('.', os.O_TMPFILE | os.O_WRONLY); os.write(unnamed, b'got a name')
assert ctypes.CDLL(None).linkat(-100, f'/proc/self/fd/{unnamed}'.encode(), -100, b'named', 0x400) == 0; print(open('named').read())
",
    );
    assert_eq!(said, "to standard output\nb'through a pipe'\nb'no name'\ngot a name\n");
}

#[test]
fn system_calls_by_number_stay_inside_old_ones_too() {
    let world = World::new();
    let said = world.python(
        "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    assert result >= 0, (number, os.strerror(ctypes.get_errno()))
    return result
here = -100
call(85, b'created', 0o644); call(76, b'a.txt', 2); call(90, b'a.txt', 0o600); call(268, here, b'b.txt', 0o640)
call(83, b'made', 0o755); call(82, b'made', b'renamed'); call(264, here, b'renamed', here, b'again'); call(84, b'again')
call(86, b'b.txt', b'hard'); call(265, here, b'b.txt', here, b'hard2', 0)
call(88, b'a.txt', b'soft'); call(266, b'a.txt', here, b'soft2')
call(92, b'a.txt', os.getuid(), os.getgid()); call(260, here, b'a.txt', os.getuid(), os.getgid(), 0)
call(132, b'b.txt', None); call(235, b'b.txt', None); call(261, here, b'b.txt', None); call(280, here, b'b.txt', None, 0)
call(133, b'pipe', 0o010644, 0)
descriptor = os.open('data/c.txt', os.O_RDONLY)
call(91, descriptor, 0o600); call(93, descriptor, os.getuid(), os.getgid())
call(260, descriptor, b'', os.getuid(), os.getgid(), 0x1000)
call(87, b'data/deep/d.txt')
try: call(452, here, b'to_data/c.txt', 0o604, 0)
except AssertionError as error: assert 'not implemented' in str(error), error; os.chmod('data/c.txt', 0o604)
print(open('a.txt').read(), [oct(os.stat(name).st_mode & 0o777) for name in ('a.txt', 'b.txt', 'data/c.txt')], os.readlink('soft'), os.listdir('data/deep'))
print(sorted(os.listdir()))
",
    );
    assert_eq!(
        said,
        "fi ['0o600', '0o640', '0o604'] a.txt ['deeper']
['a.txt', 'b.txt', 'created', 'data', 'empty', 'hard', 'hard2', 'pipe', 'soft', 'soft2', 'to_a', 'to_data']\n"
    );
}
