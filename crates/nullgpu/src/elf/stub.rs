//! Writes a shared object that stands in for a library, without a compiler or a linker.
//!
//! A stub has a function for each name that is asked of it. A function counts its call, leaves word that it was the last to be
//! called, and jumps to where its slot of a table points: at first to code that returns 0. When the stub is loaded, its one initialiser hands that table, with the
//! names and the counters, to the core library ([`REGISTER`]), which puts the addresses of its own answers there. So a stub
//! knows nothing of what the core can answer, and stays as it is when the core learns more.

use object::Endianness;
use object::elf;
use object::write::elf::{FileHeader, ProgramHeader, Rel, SectionHeader, Sym, Verdef, Writer};

use super::Functions;

/// The soname of the library that the stubs hand themselves to.
pub const CORE_SONAME: &str = "libhighwater_nullgpu_core.so";

/// The function of the core that a stub calls when it is loaded, with the address of its [record](RECORD_SIZE).
pub const REGISTER: &str = "highwater_nullgpu_register";

/// What a stub hands over, seven words: the number of this layout, the address of its soname, the address of its names (each
/// ended by a zero byte, one after the other), how many they are, the address of as many 64-bit counters, the
/// address of as many slots, and the address of a word that holds where a call leaves the address of its counter.
pub const RECORD_SIZE: u64 = 56;

/// The number of the record's layout.
pub const RECORD_LAYOUT: u64 = 2;

const PAGE: u64 = 0x1000;
const WORD: u64 = 8;
/// A function: `lock inc qword [counter]`, `lea r11, [counter]`, `mov r10, [last]`, `mov [r10], r11`, `jmp [slot]`, and a byte to
/// fill up. No caller expects these two registers to be kept, and no argument is in them.
const FUNCTION_SIZE: u64 = 32;

/// Why a stub could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A number of the file's format does not hold what is asked.
    #[error("the stub would be larger than its format allows")]
    TooLarge,
    /// The format's own rules.
    #[error(transparent)]
    Format(#[from] object::write::Error),
}

/// A stub for `soname` with these functions, as the bytes of an ELF64 file for x86-64.
///
/// The same arguments give the same bytes.
///
/// # Errors
/// More than 65,000 versions, or a file of more than 2 GiB: no such library is known.
pub fn write(soname: &str, functions: &Functions) -> Result<Vec<u8>, Error> {
    let mut versions: Vec<&str> = functions.keys().flatten().map(String::as_str).collect();
    versions.sort_unstable();
    let bucket_count = bucket_count(functions.values().map(std::collections::BTreeSet::len).sum());
    let mut named: Vec<Named> = functions
        .iter()
        .flat_map(|(version, names)| {
            let version = version.as_deref().and_then(|version| versions.binary_search(&version).ok());
            names.iter().map(move |name| Named { name, version, hash: elf::gnu_hash(name.as_bytes()) })
        })
        .collect();
    // The hash table wants the symbols of a bucket together; within it, the order is that of the names.
    named.sort_by_key(|named| (named.hash % bucket_count, named.name, named.version));

    let mut bytes = Vec::new();
    Stub { soname, versions, named, bucket_count }.write(&mut bytes)?;
    Ok(bytes)
}

struct Named<'a> {
    name: &'a str,
    /// Which of the stub's versions.
    version: Option<usize>,
    hash: u32,
}

struct Stub<'a> {
    soname: &'a str,
    versions: Vec<&'a str>,
    named: Vec<Named<'a>>,
    bucket_count: u32,
}

fn bucket_count(symbols: usize) -> u32 {
    u32::try_from(symbols / 2).unwrap_or(u32::MAX).max(1)
}

fn narrow<T, U: TryFrom<T>>(value: T) -> Result<U, Error> {
    U::try_from(value).map_err(|_| Error::TooLarge)
}

impl Stub<'_> {
    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let count = self.named.len() as u64;
        let symbol_count: u32 = narrow(count)?;
        let bloom_count = (symbol_count / 8).max(1).next_power_of_two();
        let verdef_count: u16 = if self.versions.is_empty() { 0 } else { narrow(self.versions.len() + 1)? };

        // First what lies where. File offsets are addresses too: nothing is gained by packing a few pages.
        let mut writer = Writer::new(Endianness::Little, true, bytes);
        writer.reserve_file_header();
        writer.reserve_program_headers(5);
        let soname = writer.add_dynamic_string(self.soname.as_bytes());
        let needed = writer.add_dynamic_string(CORE_SONAME.as_bytes());
        let register = writer.add_dynamic_string(REGISTER.as_bytes());
        let names: Vec<_> = self.named.iter().map(|named| writer.add_dynamic_string(named.name.as_bytes())).collect();
        let versions: Vec<_> =
            self.versions.iter().map(|version| writer.add_dynamic_string(version.as_bytes())).collect();
        let register_index = writer.reserve_dynamic_symbol_index();
        for _ in &self.named {
            writer.reserve_dynamic_symbol_index();
        }
        let gnu_hash = writer.reserve_gnu_hash(bloom_count, self.bucket_count, symbol_count);
        let dynsym = writer.reserve_dynsym();
        let dynstr = writer.reserve_dynstr()?;
        let dynstr_size = u64::from(writer.dynstr_len());
        let versym = if verdef_count > 0 { writer.reserve_gnu_versym() } else { 0 };
        let verdef = writer.reserve_gnu_verdef(verdef_count, verdef_count.into());
        // Five words of the record, the initialiser, where the last call is left, every slot, and the core's function.
        let relocation_count = 5 + 1 + 1 + self.named.len() + 1;
        let relocations = writer.reserve_relocations(relocation_count, true);
        let relocations_size = relocation_count as u64 * 24;
        let texts = self.texts();
        let texts_at = writer.reserve(texts.len() as u64, 1);
        let readable_end = writer.reserved_len();

        let code_at = writer.reserve(count * FUNCTION_SIZE + 2 * FUNCTION_SIZE, PAGE);
        let code_end = writer.reserved_len();
        let zero_at = code_at + count * FUNCTION_SIZE;
        let init_at = zero_at + FUNCTION_SIZE;

        writer.reserve(0, PAGE);
        let dynamic_count = if verdef_count > 0 { 15 } else { 12 };
        let dynamic = writer.reserve_dynamic(dynamic_count);
        let init_array = writer.reserve(WORD, WORD);
        let record = writer.reserve(RECORD_SIZE, WORD);
        let imported = writer.reserve(WORD, WORD);
        let last = writer.reserve(WORD, WORD);
        // Where the last call is left as long as nobody says otherwise.
        let last_here = writer.reserve(WORD, WORD);
        let slots = writer.reserve(count * WORD, WORD);
        let data_end = writer.reserved_len();
        let counters = data_end;

        writer.reserve_gnu_hash_section_index();
        writer.reserve_dynsym_section_index();
        writer.reserve_dynstr_section_index();
        if verdef_count > 0 {
            writer.reserve_gnu_versym_section_index();
            writer.reserve_gnu_verdef_section_index();
        }
        let relocations_name = writer.add_section_name(b".rela.dyn");
        writer.reserve_section_index();
        let code_name = writer.add_section_name(b".text");
        let code_section = writer.reserve_section_index();
        writer.reserve_dynamic_section_index();
        let data_name = writer.add_section_name(b".data");
        writer.reserve_section_index();
        let counters_name = writer.add_section_name(b".bss");
        writer.reserve_section_index();
        writer.reserve_shstrtab_section_index();
        writer.reserve_shstrtab()?;
        writer.reserve_section_headers();

        // Then all of it, in that order.
        writer.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_SYSV,
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: elf::FileFlags::default(),
        })?;
        writer.write_align_program_headers();
        let data_at = dynamic;
        let segment = |kind, flags, at: u64, end: u64, memory_end: u64, align| ProgramHeader {
            p_type: kind,
            p_flags: flags,
            p_offset: at,
            p_vaddr: at,
            p_paddr: at,
            p_filesz: end - at,
            p_memsz: memory_end - at,
            p_align: align,
        };
        let writable = elf::PF_R | elf::PF_W;
        let counters_end = counters + count * WORD;
        writer.write_program_header(&segment(elf::PT_LOAD, elf::PF_R, 0, readable_end, readable_end, PAGE));
        writer.write_program_header(&segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, code_at, code_end, code_end, PAGE));
        writer.write_program_header(&segment(elf::PT_LOAD, writable, data_at, data_end, counters_end, PAGE));
        let dynamic_end = dynamic + dynamic_count as u64 * 16;
        writer.write_program_header(&segment(elf::PT_DYNAMIC, writable, dynamic, dynamic_end, dynamic_end, WORD));
        writer.write_program_header(&segment(elf::PT_GNU_STACK, writable, 0, 0, 0, 16));

        let hash_of = |index: u32| self.named[index as usize].hash;
        writer.write_gnu_hash(register_index.0 + 1, 6, bloom_count, self.bucket_count, symbol_count, hash_of);
        writer.write_null_dynamic_symbol();
        let function = elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC);
        writer.write_dynamic_symbol(&Sym {
            section: None,
            st_name: writer.dynamic_string_offset(Some(register)),
            st_info: function,
            st_other: elf::SymbolOther::default(),
            st_shndx: elf::SHN_UNDEF,
            st_value: 0,
            st_size: 0,
        });
        for (index, &name) in (0..).zip(&names) {
            writer.write_dynamic_symbol(&Sym {
                section: Some(code_section.0),
                st_name: writer.dynamic_string_offset(Some(name)),
                st_info: function,
                st_other: elf::SymbolOther::default(),
                st_shndx: elf::SHN_UNDEF,
                st_value: code_at + index * FUNCTION_SIZE,
                st_size: FUNCTION_SIZE,
            });
        }
        writer.write_dynstr();
        if verdef_count > 0 {
            // The first version is the library itself, by custom; those of the symbols follow.
            let first = elf::VER_NDX_GLOBAL.0 + 1;
            writer.write_null_gnu_versym();
            writer.write_gnu_versym(elf::VER_NDX_LOCAL.into());
            for named in &self.named {
                let index = match named.version {
                    Some(version) => elf::VersionIndex(first + narrow::<_, u16>(version)?),
                    None => elf::VER_NDX_GLOBAL,
                };
                writer.write_gnu_versym(index.into());
            }
            writer.write_align_gnu_verdef();
            let texts = std::iter::once((self.soname, soname)).chain(self.versions.iter().copied().zip(versions));
            for (index, (text, id)) in (elf::VER_NDX_GLOBAL.0..).zip(texts) {
                let is_library = index == elf::VER_NDX_GLOBAL.0;
                writer.write_gnu_verdef(&Verdef {
                    version: elf::VER_DEF_CURRENT,
                    flags: if is_library { elf::VER_FLG_BASE } else { elf::VersionFlags::default() },
                    index: elf::VersionIndex(index),
                    aux_count: 1,
                    name: writer.dynamic_string_offset(Some(id)),
                    hash: elf::hash(text.as_bytes()),
                });
            }
        }

        writer.write_align_relocation();
        let mut relative = |at: u64, target: u64| -> Result<(), Error> {
            writer.write_relocation(
                true,
                &Rel { r_offset: at, r_sym: 0, r_type: elf::R_X86_64_RELATIVE, r_addend: narrow(target)? },
            );
            Ok(())
        };
        let names_at = texts_at + self.soname.len() as u64 + 1;
        relative(init_array, init_at)?;
        for (word, target) in [(1, texts_at), (2, names_at), (4, counters), (5, slots), (6, last)] {
            relative(record + word * WORD, target)?;
        }
        relative(last, last_here)?;
        for index in 0..count {
            relative(slots + index * WORD, zero_at)?;
        }
        let import = Rel { r_offset: imported, r_sym: register_index.0, r_type: elf::R_X86_64_GLOB_DAT, r_addend: 0 };
        writer.write_relocation(true, &import);
        writer.write(&texts);

        writer.pad_until(code_at);
        for index in 0..count {
            let at = code_at + index * FUNCTION_SIZE;
            writer.write(&[0xf0, 0x48, 0xff, 0x05]);
            writer.write(&distance(at + 8, counters + index * WORD)?);
            writer.write(&[0x4c, 0x8d, 0x1d]);
            writer.write(&distance(at + 15, counters + index * WORD)?);
            writer.write(&[0x4c, 0x8b, 0x15]);
            writer.write(&distance(at + 22, last)?);
            writer.write(&[0x4d, 0x89, 0x1a]);
            writer.write(&[0xff, 0x25]);
            writer.write(&distance(at + 31, slots + index * WORD)?);
            writer.write(&[0xcc]);
        }
        // xor eax, eax; ret
        writer.write(&[0x31, 0xc0, 0xc3]);
        writer.pad_until(init_at);
        // lea rdi, [record]; jmp [imported]
        writer.write(&[0x48, 0x8d, 0x3d]);
        writer.write(&distance(init_at + 7, record)?);
        writer.write(&[0xff, 0x25]);
        writer.write(&distance(init_at + 13, imported)?);
        writer.pad_until(code_end);

        writer.pad_until(dynamic);
        writer.write_align_dynamic();
        writer.write_dynamic_string(elf::DT_NEEDED, needed)?;
        writer.write_dynamic_string(elf::DT_SONAME, soname)?;
        writer.write_dynamic(elf::DT_INIT_ARRAY, init_array)?;
        writer.write_dynamic(elf::DT_INIT_ARRAYSZ, WORD)?;
        writer.write_dynamic(elf::DT_GNU_HASH, gnu_hash)?;
        writer.write_dynamic(elf::DT_STRTAB, dynstr)?;
        writer.write_dynamic(elf::DT_SYMTAB, dynsym)?;
        writer.write_dynamic(elf::DT_STRSZ, dynstr_size)?;
        writer.write_dynamic(elf::DT_RELA, relocations)?;
        writer.write_dynamic(elf::DT_RELASZ, relocations_size)?;
        writer.write_dynamic(elf::DT_RELAENT, 24)?;
        if verdef_count > 0 {
            writer.write_dynamic(elf::DT_VERSYM, versym)?;
            writer.write_dynamic(elf::DT_VERDEF, verdef)?;
            writer.write_dynamic(elf::DT_VERDEFNUM, verdef_count.into())?;
        }
        writer.write_dynamic(elf::DT_NULL, 0)?;
        writer.pad_until(record);
        // The addresses among these words are the relocations' business.
        for word in [RECORD_LAYOUT, 0, 0, count, 0, 0, 0] {
            writer.write(&word.to_le_bytes());
        }
        writer.pad_until(data_end);

        writer.write_shstrtab();
        writer.write_null_section_header();
        writer.write_gnu_hash_section_header(gnu_hash);
        writer.write_dynsym_section_header(dynsym, 1);
        writer.write_dynstr_section_header(dynstr);
        if verdef_count > 0 {
            writer.write_gnu_versym_section_header(versym);
            writer.write_gnu_verdef_section_header(verdef);
        }
        let dynsym_index = writer.dynsym_index();
        let section = |name, kind, flags, at, size, align| SectionHeader {
            sh_name: name,
            sh_type: kind,
            sh_flags: flags,
            sh_addr: at,
            sh_offset: at,
            sh_size: size,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: align,
            sh_entsize: 0,
        };
        let name = writer.section_name_offset(Some(relocations_name));
        writer.write_section_header(&SectionHeader {
            sh_link: dynsym_index.0,
            sh_entsize: 24,
            ..section(name, elf::SHT_RELA, elf::SHF_ALLOC, relocations, relocations_size, WORD)
        });
        let name = writer.section_name_offset(Some(code_name));
        let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        writer.write_section_header(&section(name, elf::SHT_PROGBITS, flags, code_at, code_end - code_at, 16));
        writer.write_dynamic_section_header(dynamic);
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        let name = writer.section_name_offset(Some(data_name));
        writer.write_section_header(&section(name, elf::SHT_PROGBITS, flags, init_array, data_end - init_array, WORD));
        let name = writer.section_name_offset(Some(counters_name));
        writer.write_section_header(&section(name, elf::SHT_NOBITS, flags, counters, count * WORD, WORD));
        writer.write_shstrtab_section_header();
        Ok(())
    }

    /// The soname and the names in the order of the symbols, each ended by a zero byte.
    fn texts(&self) -> Vec<u8> {
        let mut texts = Vec::new();
        for text in std::iter::once(self.soname).chain(self.named.iter().map(|named| named.name)) {
            texts.extend_from_slice(text.as_bytes());
            texts.push(0);
        }
        texts
    }
}

/// How far it is from the end of an instruction to what it means.
fn distance(from: u64, to: u64) -> Result<[u8; 4], Error> {
    let (from, to): (i64, i64) = (narrow(from)?, narrow(to)?);
    Ok(narrow::<_, i32>(to - from)?.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::read::elf::{ElfFile64, FileHeader as _, Sym as _, Version};
    use proptest::prelude::*;

    use super::*;
    use crate::elf::wanted;

    /// The functions that a stub has, read back with their versions.
    fn functions_of(bytes: &[u8]) -> Functions {
        let file = ElfFile64::<object::LittleEndian>::parse(bytes).unwrap();
        let (endian, header) = (file.endian(), file.elf_header());
        let sections = header.sections(endian, bytes).unwrap();
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM).unwrap();
        let versions = sections.versions(endian, bytes).unwrap();
        let mut functions = Functions::new();
        for (index, symbol) in symbols.enumerate() {
            if index.0 == 0 || symbol.is_undefined(endian) {
                continue;
            }
            let version = versions.as_ref().and_then(|table| {
                table.version(table.version_index(endian, index).index()).unwrap().map(Version::name)
            });
            let name = String::from_utf8(symbol.name(endian, symbols.strings()).unwrap().to_vec()).unwrap();
            let version = version.map(|version| String::from_utf8(version.to_vec()).unwrap());
            assert!(functions.entry(version).or_default().insert(name), "a name is there once");
        }
        functions
    }

    fn names() -> impl Strategy<Value = BTreeSet<String>> {
        prop::collection::btree_set("[A-Za-z_][A-Za-z0-9_]{0,24}", 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read_back(
            functions in prop::collection::btree_map(prop::option::of("lib[a-z]{1,8}\\.so\\.[0-9]{1,2}"), names(), 0..4)
        ) {
            let bytes = write("libname.so.7", &functions).unwrap();
            prop_assert_eq!(&write("libname.so.7", &functions).unwrap(), &bytes, "the same bytes each time");
            prop_assert_eq!(&functions_of(&bytes), &functions);
            let object = wanted::read(bytes.as_slice()).unwrap();
            prop_assert_eq!(object.soname.as_deref(), Some("libname.so.7"));
            prop_assert_eq!(object.needed, [CORE_SONAME]);
            let undefined: Vec<_> = object.undefined.iter().map(|undefined| undefined.name.as_str()).collect();
            prop_assert_eq!(undefined, [REGISTER]);
        }
    }

    #[test]
    fn a_library_of_which_nothing_is_wanted_is_still_a_library() {
        let object = wanted::read(write("libempty.so.1", &Functions::new()).unwrap().as_slice()).unwrap();
        assert_eq!(object.soname.as_deref(), Some("libempty.so.1"));
        assert!(object.defined.is_empty());
    }
}
