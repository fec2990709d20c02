//! Writes a shared object that stands in for a library, without a compiler or a linker.
//!
//! A stub has a function for each name that is asked of it. A function counts its call, leaves word that it was the last to be
//! called, and jumps to where its slot of a table points: at first to code that returns 0. When the stub is loaded, its one initialiser hands that table, with the
//! names and the counters, to the core library ([`REGISTER`]), which puts the addresses of its own answers there. So a stub
//! knows nothing of what the core can answer, and stays as it is when the core learns more.

use object::Endianness;
use object::elf;
use object::write::elf::{FileHeader, ProgramHeader, Rel, SectionHeader, Sym, Verdef, Writer};

mod layout;

use super::Functions;
use layout::Layout;

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
        let mut writer = Writer::new(Endianness::Little, true, bytes);
        let at = Layout::new(self, &mut writer)?;
        // All of it, in the order of the layout.
        self.headers(&mut writer, &at)?;
        self.symbols(&mut writer, &at)?;
        self.relocations(&mut writer, &at)?;
        writer.write(&self.texts());
        self.code(&mut writer, &at)?;
        self.data(&mut writer, &at)?;
        self.sections(&mut writer, &at);
        Ok(())
    }

    fn count(&self) -> u64 {
        self.named.len() as u64
    }

    fn headers(&self, writer: &mut Writer<'_>, at: &Layout) -> Result<(), Error> {
        writer.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_SYSV,
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: elf::FileFlags::default(),
        })?;
        writer.write_align_program_headers();
        let segment = |kind, flags, start: u64, end: u64, memory_end: u64, align| ProgramHeader {
            p_type: kind,
            p_flags: flags,
            p_offset: start,
            p_vaddr: start,
            p_paddr: start,
            p_filesz: end - start,
            p_memsz: memory_end - start,
            p_align: align,
        };
        let writable = elf::PF_R | elf::PF_W;
        let end_of_counters = at.counters + self.count() * WORD;
        writer.write_program_header(&segment(elf::PT_LOAD, elf::PF_R, 0, at.readable_end, at.readable_end, PAGE));
        writer.write_program_header(&segment(
            elf::PT_LOAD,
            elf::PF_R | elf::PF_X,
            at.code_at,
            at.code_end,
            at.code_end,
            PAGE,
        ));
        writer.write_program_header(&segment(elf::PT_LOAD, writable, at.dynamic, at.data_end, end_of_counters, PAGE));
        let end_of_dynamic = at.dynamic + at.dynamic_count as u64 * 16;
        writer.write_program_header(&segment(
            elf::PT_DYNAMIC,
            writable,
            at.dynamic,
            end_of_dynamic,
            end_of_dynamic,
            WORD,
        ));
        writer.write_program_header(&segment(elf::PT_GNU_STACK, writable, 0, 0, 0, 16));
        Ok(())
    }

    /// The symbols by hash and by number, their names, and their versions.
    fn symbols(&self, writer: &mut Writer<'_>, at: &Layout) -> Result<(), Error> {
        let hash_of = |index: u32| self.named[index as usize].hash;
        writer.write_gnu_hash(at.register_index.0 + 1, 6, at.bloom_count, self.bucket_count, at.symbol_count, hash_of);
        writer.write_null_dynamic_symbol();
        let function = elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC);
        writer.write_dynamic_symbol(&Sym {
            section: None,
            st_name: writer.dynamic_string_offset(Some(at.register)),
            st_info: function,
            st_other: elf::SymbolOther::default(),
            st_shndx: elf::SHN_UNDEF,
            st_value: 0,
            st_size: 0,
        });
        for (index, &name) in (0..).zip(&at.names) {
            writer.write_dynamic_symbol(&Sym {
                section: Some(at.code_section.0),
                st_name: writer.dynamic_string_offset(Some(name)),
                st_info: function,
                st_other: elf::SymbolOther::default(),
                st_shndx: elf::SHN_UNDEF,
                st_value: at.code_at + index * FUNCTION_SIZE,
                st_size: FUNCTION_SIZE,
            });
        }
        writer.write_dynstr();
        if at.verdef_count > 0 {
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
            let texts = std::iter::once((self.soname, at.soname))
                .chain(self.versions.iter().copied().zip(at.versions.iter().copied()));
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
        Ok(())
    }

    fn relocations(&self, writer: &mut Writer<'_>, at: &Layout) -> Result<(), Error> {
        writer.write_align_relocation();
        let mut relative = |place: u64, target: u64| -> Result<(), Error> {
            writer.write_relocation(
                true,
                &Rel { r_offset: place, r_sym: 0, r_type: elf::R_X86_64_RELATIVE, r_addend: narrow(target)? },
            );
            Ok(())
        };
        let names_at = at.texts_at + self.soname.len() as u64 + 1;
        relative(at.init_array, at.init_at)?;
        for (word, target) in [(1, at.texts_at), (2, names_at), (4, at.counters), (5, at.slots), (6, at.last)] {
            relative(at.record + word * WORD, target)?;
        }
        relative(at.last, at.last_here)?;
        for index in 0..self.count() {
            relative(at.slots + index * WORD, at.zero_at)?;
        }
        let import =
            Rel { r_offset: at.imported, r_sym: at.register_index.0, r_type: elf::R_X86_64_GLOB_DAT, r_addend: 0 };
        writer.write_relocation(true, &import);
        Ok(())
    }

    fn code(&self, writer: &mut Writer<'_>, at: &Layout) -> Result<(), Error> {
        writer.pad_until(at.code_at);
        for index in 0..self.count() {
            let here = at.code_at + index * FUNCTION_SIZE;
            writer.write(&[0xf0, 0x48, 0xff, 0x05]);
            writer.write(&distance(here + 8, at.counters + index * WORD)?);
            writer.write(&[0x4c, 0x8d, 0x1d]);
            writer.write(&distance(here + 15, at.counters + index * WORD)?);
            writer.write(&[0x4c, 0x8b, 0x15]);
            writer.write(&distance(here + 22, at.last)?);
            writer.write(&[0x4d, 0x89, 0x1a]);
            writer.write(&[0xff, 0x25]);
            writer.write(&distance(here + 31, at.slots + index * WORD)?);
            writer.write(&[0xcc]);
        }
        // xor eax, eax; ret
        writer.write(&[0x31, 0xc0, 0xc3]);
        writer.pad_until(at.init_at);
        // lea rdi, [at.record]; jmp [at.imported]
        writer.write(&[0x48, 0x8d, 0x3d]);
        writer.write(&distance(at.init_at + 7, at.record)?);
        writer.write(&[0xff, 0x25]);
        writer.write(&distance(at.init_at + 13, at.imported)?);
        writer.pad_until(at.code_end);
        Ok(())
    }

    /// What is written to at run time: what the loader wants to know, the record, the slots.
    fn data(&self, writer: &mut Writer<'_>, at: &Layout) -> Result<(), Error> {
        writer.pad_until(at.dynamic);
        writer.write_align_dynamic();
        writer.write_dynamic_string(elf::DT_NEEDED, at.needed)?;
        writer.write_dynamic_string(elf::DT_SONAME, at.soname)?;
        writer.write_dynamic(elf::DT_INIT_ARRAY, at.init_array)?;
        writer.write_dynamic(elf::DT_INIT_ARRAYSZ, WORD)?;
        writer.write_dynamic(elf::DT_GNU_HASH, at.gnu_hash)?;
        writer.write_dynamic(elf::DT_STRTAB, at.dynstr)?;
        writer.write_dynamic(elf::DT_SYMTAB, at.dynsym)?;
        writer.write_dynamic(elf::DT_STRSZ, at.dynstr_size)?;
        writer.write_dynamic(elf::DT_RELA, at.relocations)?;
        writer.write_dynamic(elf::DT_RELASZ, at.relocations_size)?;
        writer.write_dynamic(elf::DT_RELAENT, 24)?;
        if at.verdef_count > 0 {
            writer.write_dynamic(elf::DT_VERSYM, at.versym)?;
            writer.write_dynamic(elf::DT_VERDEF, at.verdef)?;
            writer.write_dynamic(elf::DT_VERDEFNUM, at.verdef_count.into())?;
        }
        writer.write_dynamic(elf::DT_NULL, 0)?;
        writer.pad_until(at.record);
        // The addresses among these words are the at.relocations' business.
        for word in [RECORD_LAYOUT, 0, 0, self.count(), 0, 0, 0] {
            writer.write(&word.to_le_bytes());
        }
        writer.pad_until(at.data_end);
        Ok(())
    }

    fn sections(&self, writer: &mut Writer<'_>, at: &Layout) {
        writer.write_shstrtab();
        writer.write_null_section_header();
        writer.write_gnu_hash_section_header(at.gnu_hash);
        writer.write_dynsym_section_header(at.dynsym, 1);
        writer.write_dynstr_section_header(at.dynstr);
        if at.verdef_count > 0 {
            writer.write_gnu_versym_section_header(at.versym);
            writer.write_gnu_verdef_section_header(at.verdef);
        }
        let dynsym_index = writer.dynsym_index();
        let section = |name, kind, flags, start, size, align| SectionHeader {
            sh_name: name,
            sh_type: kind,
            sh_flags: flags,
            sh_addr: start,
            sh_offset: start,
            sh_size: size,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: align,
            sh_entsize: 0,
        };
        let name = writer.section_name_offset(Some(at.relocations_name));
        writer.write_section_header(&SectionHeader {
            sh_link: dynsym_index.0,
            sh_entsize: 24,
            ..section(name, elf::SHT_RELA, elf::SHF_ALLOC, at.relocations, at.relocations_size, WORD)
        });
        let name = writer.section_name_offset(Some(at.code_name));
        let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        writer.write_section_header(&section(name, elf::SHT_PROGBITS, flags, at.code_at, at.code_end - at.code_at, 16));
        writer.write_dynamic_section_header(at.dynamic);
        let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
        let name = writer.section_name_offset(Some(at.data_name));
        writer.write_section_header(&section(
            name,
            elf::SHT_PROGBITS,
            flags,
            at.init_array,
            at.data_end - at.init_array,
            WORD,
        ));
        let name = writer.section_name_offset(Some(at.counters_name));
        writer.write_section_header(&section(name, elf::SHT_NOBITS, flags, at.counters, self.count() * WORD, WORD));
        writer.write_shstrtab_section_header();
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
    use sha2::{Digest as _, Sha256};

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

    /// Stubs lie in caches of users: as long as their record has this layout, the same functions give the same bytes.
    #[test]
    fn the_bytes_stay_as_they_are() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<String>>();
        let many = (0..100).map(|number| format!("function_{number}")).collect::<BTreeSet<String>>();
        let plain = Functions::from([(None, names(&["cuInit", "cuMemAlloc_v2", "cuMemFree_v2"]))]);
        let versioned = Functions::from([
            (None, names(&["plain"])),
            (Some("libcublas.so.12".to_owned()), many),
            (Some("libcublas.so.13".to_owned()), names(&["cublasCreate_v2"])),
        ]);
        for (functions, hash) in [
            (Functions::new(), "dda8ee5a6917b66070e3346f18ee984814f55882b289f68c69978ecffcaa0363"),
            (plain, "c29a00c5abfb8a1f3e811cf4be7b699c552cf5e54ede725874447a05547fc69a"),
            (versioned, "143d25e72fca41230e65b629df66e94ac117c80e29779652f80abb52436f6805"),
        ] {
            let bytes = write("libname.so.7", &functions).unwrap();
            let digest = Sha256::digest(&bytes).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            assert_eq!(digest, hash);
        }
    }

    #[test]
    fn a_library_of_which_nothing_is_wanted_is_still_a_library() {
        let object = wanted::read(write("libempty.so.1", &Functions::new()).unwrap().as_slice()).unwrap();
        assert_eq!(object.soname.as_deref(), Some("libempty.so.1"));
        assert!(object.defined.is_empty());
    }
}
